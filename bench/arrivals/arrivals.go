// Package arrivals generates load for latency measurements. Requests arrive at random times, as at a server, even if
// earlier requests are still running.
package arrivals

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// tick is the interval between checks for arrivals. Calls that arrived since the last check begin immediately.
const tick = 200 * time.Microsecond

// Offer calls do at a rate per second for a while, at random intervals, and returns the durations of all calls, sorted.
// If a call takes long or the machine stalls, no calls are skipped: missed calls are made immediately.
//
// The duration of a call begins when the call begins. Goroutines are reused, as in a server, and a new one is started
// only if all are busy. With a new goroutine per call, the growth of its stack would take longer than most calls.
func Offer(rate float64, lasting time.Duration, do func()) ([]time.Duration, error) {
	if rate <= 0 || lasting <= 0 {
		return nil, fmt.Errorf("offer %g calls a second for %s: want more than 0", rate, lasting)
	}
	next, end, err := newTicker(tick)
	if err != nil {
		return nil, err
	}
	defer func() { _ = end() }()
	c := &workers{do: do, calls: make(chan struct{})}
	gap := float64(time.Second) / rate
	began := time.Now()
	for at := time.Duration(0); at <= lasting && err == nil; {
		err = next()
		for now := min(time.Since(began), lasting); at <= now; at += time.Duration(rand.ExpFloat64() * gap) {
			c.call()
		}
	}
	return c.wait(), err
}

// workers is the set of goroutines that make calls.
type workers struct {
	do    func()
	calls chan struct{}
	group sync.WaitGroup

	mu        sync.Mutex
	durations [][]time.Duration
}

// call lets an idle goroutine make a call, or starts a new one.
func (c *workers) call() {
	select {
	case c.calls <- struct{}{}:
	default:
		c.group.Go(c.serve)
	}
}

// serve makes a call, and further calls as they arrive.
func (c *workers) serve() {
	took := make([]time.Duration, 0, 16) // with a backlog there are many goroutines with few calls each
	for more := true; more; _, more = <-c.calls {
		from := time.Now()
		c.do()
		took = append(took, time.Since(from))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.durations = append(c.durations, took)
}

// wait waits for all calls, and returns their durations, sorted.
func (c *workers) wait() []time.Duration {
	close(c.calls)
	c.group.Wait()
	all := slices.Concat(c.durations...)
	slices.Sort(all)
	return all
}

// Quantile returns the value that the given share of the sorted durations does not exceed. It returns 0 if there are
// none.
func Quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
