package guard

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

const (
	// refusalLasts is for how long a shard must not have refused anything before it counts as deciding again: one whose memory
	// is nearly full refuses some and not others, and nobody wants to hear of each.
	refusalLasts = 5 * time.Second
	// refusalLook is how often that is seen to.
	refusalLook = time.Second
)

// A refusal is the state of a shard that works and says of checks that it cannot decide them: its memory is full, or there is
// something else under their keys. It goes on being asked, as it may well decide others.
type refusal struct {
	check headgate.Check // the first
	since time.Time
	why   atomic.Pointer[error] // of the last
	last  atomic.Int64          // when it was, in ns since 1970
	count atomic.Int64
}

// refused notes that a shard refused a check. The first time it tells so, and sees to it that the end is told, too.
func (g *Guard) refused(s *shard, c *headgate.Check, err error, now time.Time) {
	r := s.refusal.Load()
	if r == nil {
		first := &refusal{check: *c, since: now}
		first.note(err, now)
		if s.refusal.CompareAndSwap(nil, first) {
			g.tell(Event{Kind: Refusing, Shard: s.name, Err: err})
			g.run(func() { g.awaitDecisions(s, first) })
			return
		}
		if r = s.refusal.Load(); r == nil { // it has come and gone
			return
		}
	}
	r.note(err, now)
}

func (r *refusal) note(err error, now time.Time) {
	r.why.Store(&err)
	r.last.Store(now.UnixNano())
	r.count.Add(1)
}

// awaitDecisions ends a refusal when the shard has refused nothing for a while and is asked whether it decides: who reads the
// state of a node that gets no requests must not be told what was.
func (g *Guard) awaitDecisions(s *shard, r *refusal) {
	tick := time.NewTicker(refusalLook)
	defer tick.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-tick.C:
		}
		if time.Since(time.Unix(0, r.last.Load())) < refusalLasts || s.down.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(g.life, g.options.Deadline)
		err := g.knock(ctx, s, &r.check)
		cancel()
		switch judge(g.life, err) {
		case answered:
			s.refusal.Store(nil)
			g.tell(Event{Kind: Deciding, Shard: s.name, Down: time.Since(r.since), Degraded: r.count.Load()})
			return
		case refused:
			r.last.Store(time.Now().UnixNano())
		}
	}
}

// knock asks a shard how it is, by a look at a check if the store has no better way. There may be none.
func (g *Guard) knock(ctx context.Context, s *shard, c *headgate.Check) error {
	if g.prober != nil {
		return g.prober.Probe(ctx, s.name)
	}
	if c == nil {
		return nil
	}
	look := *c
	look.Cost = 0
	if look.Limit == (headgate.Limit{}) { // that of a Reset
		look.Limit = headgate.PerSecond(1)
	}
	_, err := g.inner.Take(ctx, look)
	return err
}
