package guard

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
)

// A Prober is a store that can say whether a shard works, without a check. It returns when ctx ends.
type Prober interface {
	Probe(ctx context.Context, shard string) error
}

// The times between probes double, though not far at first: a failover takes some seconds, and a probe that comes late is
// time in which policies decide. They are cut by up to a quarter, so that the nodes of a fleet do not knock all at once.
const (
	firstProbe = 100 * time.Millisecond
	hastyProbe = 200 * time.Millisecond
	lastProbe  = 500 * time.Millisecond
	probeHaste = 10 * time.Second
)

// afterProbe returns how long to wait for the next probe after one that had been waited for so long, of a shard that has
// been down for a time.
func afterProbe(wait, down time.Duration) time.Duration {
	most := lastProbe
	if down < probeHaste && wait < lastProbe {
		most = hastyProbe
	}
	return min(2*wait, most)
}

// idleProbes is how many probes in a row a shard of a Sharded store gets that nobody asks for: about a minute's.
const idleProbes = 120

// goProbe starts the prober of a shard that went down, which first waits.
func (g *Guard) goProbe(s *shard, wait time.Duration) { g.run(func() { g.probeUntilUp(s, wait) }) }

// run starts something that ends with the guard, which waits for it.
func (g *Guard) run(what func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed.Load() {
		g.running.Go(what)
	}
}

func (g *Guard) probeUntilUp(s *shard, wait time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	idle, told := 0, false
	late := g.terms.wire != nil && errors.Is(s.lastErr(), context.DeadlineExceeded)
	for began := time.Now(); ; wait = afterProbe(wait, time.Since(began)) {
		pause := wait - rand.N(wait/4)
		s.nextProbe.Store(time.Now().Add(pause).UnixNano())
		if !g.awaitProbe(s, timer, pause, late) {
			return
		}
		late = false
		if idle++; s.used.Swap(false) {
			idle = 0
		}
		if idle > idleProbes && g.shards.of != nil {
			g.dropShard(s)
			g.tell(Event{Kind: Vanished, Shard: s.name, Err: s.lastErr()})
			return
		}
		up, err := g.probe(s)
		if up {
			return
		}
		if !told && err != nil {
			told = true
			g.tell(Event{Kind: StillDown, Shard: s.name, Err: err})
		}
	}
}

// awaitProbe waits for a while. If the shard may be late, it waits no longer than until the shard answers what it was asked
// before it went down. It is false when the guard is closed.
func (g *Guard) awaitProbe(s *shard, timer *time.Timer, pause time.Duration, late bool) bool {
	end := time.Now().Add(pause)
	for {
		step := time.Until(end)
		if late {
			step = min(step, lateLook)
		}
		timer.Reset(step)
		select {
		case <-timer.C:
		case <-g.stop:
			return false
		}
		if !time.Now().Before(end) || late && g.terms.wire.LastReceived(s.name).UnixNano() > s.since.Load() {
			return true
		}
	}
}

// lateLook is how often to look whether a shard that has just gone down answers late.
const lateLook = 5 * time.Millisecond

// probe asks a shard how it is, with the one leave that its breaker gives, and reports whether that closed the circuit.
func (g *Guard) probe(s *shard) (up bool, err error) {
	done, err := s.breaker.Allow()
	if err != nil {
		return false, nil
	}
	g.counters.probes.Add(1)
	began := time.Now()
	ctx := g.terms.begin(g.life, s, began, began.Add(g.options.Deadline))
	defer g.terms.end(ctx)
	var last *headgate.Check
	if f := s.failed.Load(); f != nil {
		last = &f.check
	}
	err = g.knock(ctx, s, last)
	switch judge(g.life, err) {
	case answered, refused:
		done(nil)
		return true, nil
	case ended:
		done(errNoMind)
		return false, nil
	default:
		g.counters.probesFailed.Add(1)
		done(errFailed)
		return false, err
	}
}
