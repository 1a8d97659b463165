package guard

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// A circuit opens after tripInRow failures in a row, or if half of at least tripCalls calls within tripWindow failed.
const (
	tripInRow  = 5
	tripCalls  = 20
	tripWindow = 2 * time.Second
)

// A circuit is the circuit breaker of one shard. Failed calls open it, and only a probe closes it.
type circuit struct {
	clock clock.Clock

	failuresInRow atomic.Int64
	counts        [windowParts]callCounts

	open       atomic.Bool
	opened     atomic.Pointer[chan struct{}] // a channel that is closed when the circuit opens
	generation atomic.Int64                  // how often the circuit has opened and closed
	changedAt  atomic.Int64                  // when the circuit last opened or closed, in ns since 1970
	nextProbe  atomic.Int64                  // when the next probe is due, in ns since 1970

	mu sync.Mutex // held to open and close the circuit
}

// callCounts counts the calls that ended within one part of the tripWindow.
type callCounts struct {
	part                atomic.Int64 // the number of the part, counted from 1970
	successes, failures atomic.Int64
}

const (
	windowParts = 10
	partTime    = tripWindow / windowParts
)

func newCircuit(clk clock.Clock) *circuit {
	c := &circuit{clock: clk}
	c.setClosed(clk.Now())
	return c
}

func (c *circuit) setClosed(now time.Time) {
	opened := make(chan struct{})
	c.opened.Store(&opened)
	c.changedAt.Store(now.UnixNano())
	c.open.Store(false)
}

// failing reports whether the last call failed.
func (c *circuit) failing() bool { return c.failuresInRow.Load() > 0 }

// report records the result of a call, and reports whether the circuit should open. generation is that of the circuit
// when the call began. If the circuit has changed since, the call is ignored, because it says nothing about the shard
// now.
func (c *circuit) report(generation int64, now time.Time, success bool) bool {
	if c.generation.Load() != generation {
		return false
	}
	part := now.UnixNano() / int64(partTime)
	n := &c.counts[part%windowParts]
	if old := n.part.Load(); old != part && n.part.CompareAndSwap(old, part) {
		n.successes.Store(0) // calls that end at the same moment may not be counted, which does no harm
		n.failures.Store(0)
	}
	if success {
		n.successes.Add(1)
		return false
	}
	n.failures.Add(1)
	return c.shouldOpen(now)
}

// shouldOpen reports whether enough calls have failed to open the circuit.
func (c *circuit) shouldOpen(now time.Time) bool {
	if c.failuresInRow.Load() >= tripInRow {
		return true
	}
	var successes, failures int64
	oldest := now.UnixNano()/int64(partTime) - windowParts
	for i := range c.counts {
		if n := &c.counts[i]; n.part.Load() > oldest {
			successes += n.successes.Load()
			failures += n.failures.Load()
		}
	}
	return successes+failures >= tripCalls && failures >= successes
}

// tryOpen opens the circuit, unless it is open or has changed since the given generation. It reports whether it opened
// the circuit. It tests both conditions, because a call that begins while another one opens the circuit may already
// have the new generation.
func (c *circuit) tryOpen(generation int64, now, nextProbe time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open.Load() || c.generation.Load() != generation {
		return false
	}
	c.generation.Add(1)
	c.changedAt.Store(now.UnixNano())
	c.nextProbe.Store(nextProbe.UnixNano())
	c.open.Store(true)
	close(*c.opened.Load())
	return true
}

// close closes an open circuit, and returns how long it was open.
func (c *circuit) close(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	down := now.Sub(time.Unix(0, c.changedAt.Load()))
	c.failuresInRow.Store(0)
	for i := range c.counts {
		c.counts[i].part.Store(0)
	}
	c.generation.Add(1)
	c.setClosed(now)
	return down
}

// retryAfter returns the time to the next probe, as an estimate of when the shard works again.
func (c *circuit) retryAfter() time.Duration {
	wait := firstDelay
	if c.open.Load() {
		wait = time.Unix(0, c.nextProbe.Load()).Sub(c.clock.Now())
	}
	return max(wait, time.Millisecond).Round(time.Microsecond)
}
