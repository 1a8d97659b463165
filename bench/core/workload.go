package core

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/bench/arrivals"
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// offer makes requests at a rate for a while.
func (w *workload) offer(c limiters.Limiter, r Request) response {
	sequence := w.sequence(r.Order)
	var denied atomic.Int64
	took, err := arrivals.Offer(r.Rate, r.Length, func() {
		if !c.Allow(sequence[rand.IntN(len(sequence))]) {
			denied.Add(1)
		}
	})
	switch {
	case err != nil:
		return response{Error: err.Error()}
	case denied.Load() > 0:
		return response{Error: fmt.Sprintf("%d of %d requests were denied, want none", denied.Load(), len(took))}
	}
	at := func(share float64) int64 { return int64(arrivals.Quantile(took, share)) }
	return response{Offered: harness.Pacing{
		Requests: int64(len(took)), P50: at(0.5), P99: at(0.99), P999: at(0.999),
		Max: at(1),
	}}
}

// A workload has the sequences of requests for a contender. They are created before the measurement, and are the same
// in every process. Each request has its own copy of its key, in the order of the requests, as in a server that has
// just read the key.
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
		picks := harness.NewSequence(order, w.total, w.picks)
		s = harness.KeyList(len(picks), func(i int) int { return int(picks[i]) })
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

// measure lets goroutines make ops decisions in total. It measures from the moment when all may start until the last
// has finished. Each round continues in the sequence where the previous one ended.
func (w *workload) measure(c limiters.Limiter, order string, goroutines, ops, round int) timing {
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

// decide makes n decisions, beginning at a position in the sequence, and returns how many were allowed.
func decide(c limiters.Limiter, sequence []string, from, n int) (admitted int64) {
	mask := len(sequence) - 1
	for i := from; i < from+n; i++ {
		if c.Allow(sequence[i&mask]) {
			admitted++
		}
	}
	return admitted
}
