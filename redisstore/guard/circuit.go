package guard

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A circuit opens after tripInRow failures in a row, or if half of at least tripCalls calls within tripWindow failed.
const (
	tripInRow  = 5
	tripCalls  = 20
	tripWindow = 2 * time.Second
)

// Results of calls for the breaker.
var (
	errFailed  = errors.New("failed")
	errIgnored = errors.New("says nothing about the store")
)

// A circuit is the circuit breaker of one shard.
type circuit struct {
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	// open is the state for everyone but the prober. The breaker itself turns half-open, and would let a caller through.
	open   atomic.Bool
	opened atomic.Pointer[chan struct{}] // closed while the circuit is open

	changedAt atomic.Int64 // when open last changed, in ns since 1970
	closedAt  atomic.Int64 // when it last closed, in ns since 1970
	nextProbe atomic.Int64 // in ns since 1970

	failuresInRow atomic.Int64 // the breaker's own count forgets failures before its window
	bypass        bypass
}

// A bypass keeps calls away from the breaker while they succeed. The breaker has a lock, and a goroutine that is
// preempted while it holds the lock would block all others. So the breaker learns the number of successful calls only
// when one fails. From then on it sees every call, until none has failed for tripWindow.
type bypass struct {
	off         atomic.Bool  // the breaker sees every call
	start       time.Time    // the times below are in ns since start
	failedAt    atomic.Int64 // the last failure
	successes   atomic.Int64 // that the breaker has not seen
	succeededAt atomic.Int64 // the last of them
}

// maxReported bounds how many successes are reported to the breaker at once.
const maxReported = 256

// init makes the circuit a closed one. The functions are called when it opens and closes, with the breaker locked.
func (c *circuit) init(name string, onOpen, onClose func()) {
	now := time.Now()
	c.bypass.start = now
	opened := make(chan struct{})
	c.opened.Store(&opened)
	c.changedAt.Store(now.UnixNano())
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:         name,
		MaxRequests:  1,
		Interval:     tripWindow,
		BucketPeriod: tripWindow / 10,
		Timeout:      1, // the prober decides when to probe
		ReadyToTrip: func(n gobreaker.Counts) bool {
			done := n.TotalFailures + n.TotalSuccesses
			return c.failuresInRow.Load() >= tripInRow || done >= tripCalls && 2*n.TotalFailures >= done
		},
		IsExcluded: func(err error) bool { return errors.Is(err, errIgnored) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch {
			case from == gobreaker.StateClosed:
				onOpen()
			case to == gobreaker.StateClosed:
				onClose()
			}
		},
	})
}

// setOpen opens the circuit.
func (c *circuit) setOpen(now, nextProbe time.Time) {
	c.changedAt.Store(now.UnixNano())
	c.nextProbe.Store(nextProbe.UnixNano())
	c.open.Store(true)
	close(*c.opened.Load())
}

// setClosed closes the circuit, and returns how long it was open.
func (c *circuit) setClosed(now time.Time) time.Duration {
	down := now.Sub(time.Unix(0, c.changedAt.Load()))
	opened := make(chan struct{})
	c.opened.Store(&opened)
	c.changedAt.Store(now.UnixNano())
	c.closedAt.Store(now.UnixNano())
	c.failuresInRow.Store(0)
	c.open.Store(false)
	return down
}

// retryAfter estimates when the shard works again: at the next probe.
func (c *circuit) retryAfter() time.Duration {
	wait := firstProbe
	if c.open.Load() {
		wait = time.Until(time.Unix(0, c.nextProbe.Load()))
	}
	return max(wait, time.Millisecond).Round(time.Microsecond)
}

// A permit is the permission to call a shard. Its result must be reported.
type permit struct {
	done      func(error) // of the breaker; nil if the call bypasses it
	changedAt int64       // of the circuit when the permit was given
}

// allow returns a permit, or false if the circuit is open.
func (c *circuit) allow() (permit, bool) {
	p := permit{changedAt: c.changedAt.Load()}
	if c.open.Load() {
		return p, false
	}
	if !c.bypass.off.Load() {
		return p, true
	}
	var ok bool
	p.done, ok = c.askBreaker()
	return p, ok
}

// report reports the result of a call at a time: nil, errFailed or errIgnored.
func (c *circuit) report(p permit, result error, at time.Time) {
	b := &c.bypass
	now, broke := int64(at.Sub(b.start)), errors.Is(result, errFailed)
	if broke {
		b.failedAt.Store(now)
	}
	switch {
	case p.done != nil:
		p.done(result)
		if result == nil && now-b.failedAt.Load() > int64(tripWindow) {
			b.off.Store(false)
		}
	case result == nil:
		b.successes.Add(1)
		b.succeededAt.Store(now)
	case broke && !c.open.Load() && c.changedAt.Load() == p.changedAt: // otherwise it has opened meanwhile
		b.off.Store(true)
		successes := b.successes.Swap(0)
		if now-b.succeededAt.Load() > int64(tripWindow) {
			successes = 0
		}
		for range min(successes, maxReported) {
			c.reportBypassed(nil)
		}
		c.reportBypassed(errFailed)
	}
}

// reportBypassed reports the result of a call that has bypassed the breaker.
func (c *circuit) reportBypassed(result error) {
	if done, ok := c.askBreaker(); ok {
		done(result)
	}
}

func (c *circuit) askBreaker() (done func(error), ok bool) {
	done, err := c.breaker.Allow()
	if err != nil {
		return nil, false
	}
	if c.open.Load() { // it has just opened, and this may be the permit for the prober
		done(errIgnored)
		return nil, false
	}
	return done, true
}
