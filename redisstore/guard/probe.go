package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
)

// The delay between probes doubles, up to maxUrgentDelay for the first urgentTime and maxProbeDelay after it: a
// failover takes some seconds, and a late probe prolongs the time in which policies decide. Delays are cut by a random
// part of up to a quarter, so that the nodes of a fleet do not probe at the same time.
const (
	firstProbe     = 100 * time.Millisecond
	maxUrgentDelay = 200 * time.Millisecond
	maxProbeDelay  = 500 * time.Millisecond
	urgentTime     = 10 * time.Second

	// maxIdleProbes is how many probes in a row an unused shard of a Sharded store gets: about a minute's.
	maxIdleProbes = 120
	// lateInterval is how often a shard is checked for a late response after its circuit has opened.
	lateInterval = 5 * time.Millisecond
)

// nextDelay returns the delay of the next probe after a delay, for a shard that has been down for a time.
func nextDelay(delay, down time.Duration) time.Duration {
	limit := maxProbeDelay
	if down < urgentTime && delay < maxProbeDelay {
		limit = maxUrgentDelay
	}
	return min(2*delay, limit)
}

// probeUntilUp probes a shard until its circuit closes, first after a delay.
func (g *Guard) probeUntilUp(s *shard, delay time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	idle, reported := 0, false
	maybeLate := g.traffic != nil && errors.Is(s.lastErr(), context.DeadlineExceeded)
	for began := time.Now(); ; delay = nextDelay(delay, time.Since(began)) {
		wait := delay - rand.N(delay/4)
		s.circuit.nextProbe.Store(time.Now().Add(wait).UnixNano())
		if !g.awaitProbe(s, timer, wait, maybeLate) {
			return
		}
		maybeLate = false
		if idle++; s.used.Swap(false) {
			idle = 0
		}
		if idle > maxIdleProbes && g.shards.store != nil {
			g.removeShard(s)
			g.send(Event{Kind: Vanished, Shard: s.name, Err: s.lastErr()})
			return
		}
		up, err := g.probe(s)
		if up {
			return
		}
		if !reported && err != nil {
			reported = true
			g.send(Event{Kind: StillDown, Shard: s.name, Err: err})
		}
	}
}

// awaitProbe waits for a while, or until the shard responds to an earlier call if it may only be late. It returns false
// when the guard is closed.
func (g *Guard) awaitProbe(s *shard, timer *time.Timer, wait time.Duration, maybeLate bool) bool {
	end := time.Now().Add(wait)
	for {
		step := time.Until(end)
		if maybeLate {
			step = min(step, lateInterval)
		}
		timer.Reset(step)
		select {
		case <-timer.C:
		case <-g.background.stop:
			return false
		}
		if !time.Now().Before(end) {
			return true
		}
		if maybeLate && g.traffic.LastReceived(s.name).UnixNano() > s.circuit.changedAt.Load() {
			return true
		}
	}
}

// probe probes a shard once, with the one permit of its half-open breaker, and reports whether that closed the circuit.
func (g *Guard) probe(s *shard) (up bool, err error) {
	done, err := s.circuit.breaker.Allow()
	if err != nil {
		return false, nil
	}
	g.counters.probes.Add(1)
	began := time.Now()
	ctx := g.calls.Begin(g.background.life, s.name, began, began.Add(g.options.Deadline))
	defer ctx.End()
	var last *headgate.Check
	if f := s.lastFailure.Load(); f != nil {
		last = &f.check
	}
	err = g.ask(ctx, s, last)
	switch classify(g.background.life, err) {
	case responded, refused:
		done(nil)
		return true, nil
	case canceled:
		done(errIgnored)
		return false, nil
	default:
		g.counters.probesFailed.Add(1)
		done(errFailed)
		return false, err
	}
}

// ask asks a shard whether it works. If the store is not a Prober, it peeks at a check, which may be nil.
func (g *Guard) ask(ctx context.Context, s *shard, c *headgate.Check) error {
	if g.prober != nil {
		return g.prober.Probe(ctx, s.name)
	}
	if c == nil {
		return nil
	}
	peek := *c
	peek.Cost = 0
	if peek.Limit == (headgate.Limit{}) { // of a Reset
		peek.Limit = headgate.PerSecond(1)
	}
	_, err := g.inner.Take(ctx, peek)
	return err
}
