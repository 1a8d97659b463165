package guard

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
)

const (
	// A refusal ends when the shard has refused nothing for refusalTime. A shard whose memory is nearly full refuses only
	// some checks, and an event for each of them would be too many.
	refusalTime = 5 * time.Second
	// refusalInterval is the time between two checks whether a refusal has ended.
	refusalInterval = time.Second
)

// A refusal is the state of a shard that works, but refuses to decide some checks, because its memory is full or their
// keys have values of another program. The guard still calls the shard, because it may decide other checks.
type refusal struct {
	check headgate.Check // the first refused check
	since time.Time
	err   atomic.Pointer[error] // the error for the last refused check
	last  atomic.Int64          // when the last check was refused, in ns since 1970
	count atomic.Int64          // number of refused checks
}

// recordRefusal records that a shard refused a check. For the first refused check it sends an event, and starts a
// goroutine that sends another event when the refusal ends.
func (g *Guard) recordRefusal(s *shard, c *headgate.Check, err error, now time.Time) {
	r := s.refusal.Load()
	if r == nil {
		first := &refusal{check: *c, since: now}
		first.record(err, now)
		if s.refusal.CompareAndSwap(nil, first) {
			g.send(Event{Kind: Refusing, Shard: s.name, Err: err})
			g.background.Start(func() { g.awaitEndOfRefusal(s, first) })
			return
		}
		if r = s.refusal.Load(); r == nil { // another goroutine's refusal has begun and ended
			return
		}
	}
	r.record(err, now)
}

func (r *refusal) record(err error, now time.Time) {
	r.err.Store(&err)
	r.last.Store(now.UnixNano())
	r.count.Add(1)
}

// awaitEndOfRefusal waits for the end of a refusal: until the shard has refused nothing for a while and responds to a
// probe. It then sends an event. Without the probe, a node without requests would report the end too early.
func (g *Guard) awaitEndOfRefusal(s *shard, r *refusal) {
	for clock.Sleep(g.background.Context(), g.clock, refusalInterval) == nil {
		if g.clock.Since(time.Unix(0, r.last.Load())) < refusalTime || s.circuit.open.Load() {
			continue
		}
		err := g.ask(s, &r.check)
		switch classify(g.background.Context(), err) {
		case responded:
			s.refusal.Store(nil)
			g.send(Event{Kind: Deciding, Shard: s.name, Down: g.clock.Since(r.since), Degraded: r.count.Load()})
			return
		case rejected:
			r.last.Store(g.clock.Now().UnixNano())
		}
	}
}
