package main

import (
	"runtime"
	"sync"
	"time"
)

// A workload is what is asked of a contender in its process: sequences of requests, made outside of timing and the same in
// every process. Each request has its own copy of its key, in the order in which they are asked, as a server has read it
// a moment ago.
type workload struct {
	total     int // how many keys the contender knows
	picks     int // the length of a sequence, a power of two
	sequences map[string][]string
}

func newWorkload(total, picks int) *workload {
	return &workload{total: total, picks: picks, sequences: map[string][]string{}}
}

func (w *workload) sequence(order string) []string {
	s := w.sequences[order]
	if s == nil {
		picks := newSequence(order, w.total, w.picks)
		s = keyList(len(picks), func(i int) int { return int(picks[i]) })
		w.sequences[order] = s
	}
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
			admitted[g] = decide(c, sequence, round*ops+g*share, share)
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
func decide(c contender, sequence []string, from, n int) (admitted int64) {
	mask := len(sequence) - 1
	for i := from; i < from+n; i++ {
		if c.Allow(sequence[i&mask]) {
			admitted++
		}
	}
	return admitted
}
