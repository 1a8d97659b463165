package main

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// listedKeys is up to how many keys are all held as strings and picked by index. Of more, a sample of this many is.
const listedKeys = 1 << 22

// A workload is what is asked of a contender in its process: keys, and sequences of picks from them, made outside of
// timing and the same in every process.
type workload struct {
	total     int      // how many keys the contender knows
	picks     int      // the length of a sequence, a power of two
	keys      []string // all of them, or a sample
	sequences map[string][]uint32
}

func newWorkload(total, picks int) *workload {
	return &workload{total: total, picks: picks, sequences: map[string][]uint32{}}
}

// listed tells whether all keys are held as strings.
func (w *workload) listed() bool { return w.total <= listedKeys }

// list makes the strings: all keys, or a random sample in the order in which it will be asked for.
func (w *workload) list() {
	if w.keys != nil {
		return
	}
	if w.listed() {
		w.keys = keyList(w.total, func(i int) int { return i })
		return
	}
	rng := rand.New(rand.NewPCG(sequenceSeed, uint64(w.total)))
	w.keys = keyList(min(listedKeys, w.picks), func(int) int { return rng.IntN(w.total) })
}

func (w *workload) sequence(order string) []uint32 {
	if s := w.sequences[order]; s != nil {
		return s
	}
	w.list()
	var s []uint32
	if w.listed() {
		s = newSequence(order, w.total, w.picks)
	} else {
		s = make([]uint32, w.picks) // the sample is random already
		for i := range s {
			s[i] = uint32(i % len(w.keys))
		}
	}
	w.sequences[order] = s
	return s
}

// A timing is one timed run.
type timing struct {
	Nanoseconds int64
	Decisions   int64
	Admitted    int64
	Mallocs     int64
}

// measure has goroutines decide ops times in all, and measures from the moment all may go until the last has finished.
// Round after round goes on in the sequence where the one before ended.
func (w *workload) measure(c contender, order string, goroutines, ops, round int) timing {
	sequence := w.sequence(order)
	share := ops / goroutines
	admitted := make([]int64, goroutines)
	ready, gate := &sync.WaitGroup{}, make(chan struct{})
	done := &sync.WaitGroup{}
	for g := range goroutines {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-gate
			admitted[g] = decide(c, w.keys, sequence, round*ops+g*share, share)
		})
	}
	ready.Wait()

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	close(gate)
	done.Wait()
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)

	t := timing{
		Nanoseconds: elapsed.Nanoseconds(),
		Decisions:   int64(share * goroutines),
		Mallocs:     int64(after.Mallocs - before.Mallocs),
	}
	for _, n := range admitted {
		t.Admitted += n
	}
	return t
}

// decide asks n times, from a place in the sequence on, and returns how often it was admitted.
func decide(c contender, keys []string, sequence []uint32, from, n int) (admitted int64) {
	mask := len(sequence) - 1
	for i := from; i < from+n; i++ {
		if c.Allow(keys[sequence[i&mask]]) {
			admitted++
		}
	}
	return admitted
}
