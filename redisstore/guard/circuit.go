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

// A circuit is the circuit breaker of one shard. It opens when calls fail, and only a probe closes it.
type circuit struct {
	clock clock.Clock

	failuresInRow atomic.Int64
	counts        [windowParts]callCounts

	open       atomic.Bool
	opened     atomic.Pointer[chan struct{}] // closed while the circuit is open
	generation atomic.Int64                  // how often it has opened and closed
	changedAt  atomic.Int64                  // when it last opened or closed, in ns since 1970
	nextProbe  atomic.Int64                  // in ns since 1970

	mu sync.Mutex // held to open and close
}

// callCounts count the calls that ended within one part of the tripWindow.
type callCounts struct {
	part                atomic.Int64 // the number of the part since 1970
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

// report records the result of a call that began in a generation, and returns whether the circuit should open. A call
// that began before the circuit last changed says nothing about the shard now.
func (c *circuit) report(generation int64, now time.Time, success bool) bool {
	if c.generation.Load() != generation {
		return false
	}
	part := now.UnixNano() / int64(partTime)
	n := &c.counts[part%windowParts]
	if old := n.part.Load(); old != part && n.part.CompareAndSwap(old, part) {
		n.successes.Store(0) // counts of calls that end at the same moment may be lost, which does no harm
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

// tryOpen opens the circuit. It returns false if the circuit has opened since a generation. A call that began at the
// moment at which another one opened the circuit has the generation of the open circuit.
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

// retryAfter estimates when the shard works again: at the next probe.
func (c *circuit) retryAfter() time.Duration {
	wait := firstProbe
	if c.open.Load() {
		wait = time.Unix(0, c.nextProbe.Load()).Sub(c.clock.Now())
	}
	return max(wait, time.Millisecond).Round(time.Microsecond)
}
