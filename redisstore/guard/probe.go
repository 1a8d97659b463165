package guard

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
)

// The delay between probes doubles, up to maxUrgentDelay in the first urgentTime and up to maxProbeDelay after that.
// The first delays are short because a failover takes only some seconds, and until a probe succeeds, the failure
// policies of checks decide instead of the store. Delays are shortened by up to a quarter at random, so that the nodes
// of a fleet do not probe at the same time.
const (
	firstDelay     = 100 * time.Millisecond
	maxUrgentDelay = 200 * time.Millisecond
	maxProbeDelay  = 500 * time.Millisecond
	urgentTime     = 10 * time.Second

	// maxIdleProbes is the number of probes, in about a minute, after which an unused shard of a Sharded store is
	// forgotten.
	maxIdleProbes = 120
	// lateInterval is the time between two checks for a late response after the circuit has opened.
	lateInterval = 5 * time.Millisecond
)

// nextDelay returns the delay after the given one, for a shard that has been down for the given time.
func nextDelay(delay, down time.Duration) time.Duration {
	limit := maxProbeDelay
	if down < urgentTime && delay < maxProbeDelay { // a delay that began at maxProbeDelay is not shortened
		limit = maxUrgentDelay
	}
	return min(2*delay, limit)
}

// probeUntilUp probes a shard until it responds, and then closes its circuit. The first probe is after delay.
func (g *Guard) probeUntilUp(s *shard, delay time.Duration) {
	idle, reported := 0, false
	// After a timeout, the shard may only have been slow.
	maybeLate := g.traffic != nil && errors.Is(s.lastErr(), context.DeadlineExceeded)
	for began := g.clock.Now(); ; delay = nextDelay(delay, g.clock.Since(began)) {
		wait := delay - time.Duration(g.options.Rand(int64(delay/4)))
		s.circuit.nextProbe.Store(g.clock.Now().Add(wait).UnixNano())
		if !g.awaitProbe(s, wait, maybeLate) {
			return
		}
		maybeLate = false
		if s.used.Swap(false) {
			idle = 0
		} else {
			idle++
		}
		if idle > maxIdleProbes && g.isSharded() {
			g.forgetShard(s)
			g.send(Event{Kind: Forgotten, Shard: s.name, Err: s.lastErr()})
			return
		}
		up, err := g.probe(s)
		if up {
			g.closeCircuit(s)
			return
		}
		if !reported && err != nil {
			reported = true
			g.send(Event{Kind: StillDown, Shard: s.name, Err: err})
		}
	}
}

// awaitProbe waits before a probe. If maybeLate is set, the shard may only have been slow, so the wait ends when data
// arrives from the shard. awaitProbe returns false when the guard is closed.
func (g *Guard) awaitProbe(s *shard, wait time.Duration, maybeLate bool) bool {
	for began := g.clock.Now(); ; {
		step := wait - g.clock.Since(began)
		if step <= 0 {
			return true
		}
		if maybeLate {
			step = min(step, lateInterval)
		}
		if clock.Sleep(g.background.Context(), g.clock, step) != nil {
			return false
		}
		if maybeLate && g.traffic.LastReceived(s.name).UnixNano() > s.circuit.changedAt.Load() {
			return true
		}
	}
}

// probe probes a shard once, and reports whether it works. The error is nil if the guard was closed meanwhile.
func (g *Guard) probe(s *shard) (up bool, err error) {
	g.counters.probes.Add(1)
	var check *headgate.Check
	if f := s.lastFailure.Load(); f != nil {
		check = &f.check
	}
	err = g.ask(s, check)
	switch classify(g.background.Context(), err) {
	case responded, rejected: // a shard that rejects a check works
		return true, nil
	case canceled:
		return false, nil
	default:
		g.counters.probesFailed.Add(1)
		return false, err
	}
}

// ask asks a shard whether it works. If the store is not a Prober, it peeks at a check. If there is no check either, it
// assumes that the shard works.
func (g *Guard) ask(s *shard, c *headgate.Check) error {
	ctx := g.withDeadline(g.background.Context(), s.name)
	defer ctx.End() // like a cancel function
	if g.prober != nil {
		return g.prober.Probe(ctx, s.name)
	}
	if c == nil {
		return nil
	}
	peek := *c
	peek.Cost = 0
	if peek.Limit == (headgate.Limit{}) { // the check of a Reset has no limit
		peek.Limit = headgate.PerSecond(1)
	}
	_, err := g.inner.Peek(ctx, peek)
	return err
}
