// Package arrivals is for measuring what a decision adds to a request: it lets requests come as they come to a server, by chance and
// whether or not those before are done.
package arrivals

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// tick is how often it is seen who has arrived. What came in between begins at once.
const tick = 200 * time.Microsecond

// Offer calls do so many times a second for a while, at intervals that are drawn by chance, and returns how long each call took, the
// shortest first. If a call takes long, or the machine stands still, no fewer are made: those that were due then are made at once.
//
// A call is timed from where it begins. Calls are made by goroutines that have made some before, as those of a server have, and by
// one more if all are busy: a new one for each would grow its stack on the way, which takes longer than most calls.
func Offer(rate float64, lasting time.Duration, do func()) ([]time.Duration, error) {
	if rate <= 0 || lasting <= 0 {
		return nil, fmt.Errorf("offer %g calls a second for %s: want some", rate, lasting)
	}
	next, end, err := newTicker(tick)
	if err != nil {
		return nil, err
	}
	defer func() { _ = end() }()
	c := &crowd{do: do, due: make(chan struct{})}
	gap := float64(time.Second) / rate
	began := time.Now()
	for at := time.Duration(0); at <= lasting && err == nil; {
		err = next()
		for now := min(time.Since(began), lasting); at <= now; at += time.Duration(rand.ExpFloat64() * gap) {
			c.arrive()
		}
	}
	return c.leave(), err
}

// A crowd is the goroutines that make calls.
type crowd struct {
	do    func()
	due   chan struct{}
	group sync.WaitGroup

	mu   sync.Mutex
	took [][]time.Duration
}

// arrive has a call made, by who is free, or else by one more.
func (c *crowd) arrive() {
	select {
	case c.due <- struct{}{}:
	default:
		c.group.Go(c.serve)
	}
}

// serve makes a call, and those that arrive when it is free again.
func (c *crowd) serve() {
	took := make([]time.Duration, 0, 16) // most make few calls if there is a line, and there are many of them then
	for more := true; more; _, more = <-c.due {
		from := time.Now()
		c.do()
		took = append(took, time.Since(from))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, took)
}

// leave waits for all calls, and returns how long they took, the shortest first.
func (c *crowd) leave() []time.Duration {
	close(c.due)
	c.group.Wait()
	all := slices.Concat(c.took...)
	slices.Sort(all)
	return all
}

// Quantile returns what a share of the durations does not exceed, which are in order; 0 of none.
func Quantile(sorted []time.Duration, share float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(share*float64(len(sorted))), len(sorted)-1)]
}
