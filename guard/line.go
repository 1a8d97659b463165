package guard

import (
	"context"
	"time"

	"github.com/headgate/headgate"
)

// An ask is one check on its way to the store.
type ask struct {
	check *headgate.Check
	hash  uint64
	gen   uint32
	turn  turn
}

// A standing is how a request came through the line.
type standing uint8

const (
	itsTurn   standing = iota
	isDenied           // by what was learned meanwhile
	cannotAsk          // the shard is down, or did not answer others
	hasEnded           // the caller has
	isLate             // it has waited long enough
)

// line waits until it is the turn of all asks, which are for one shard. Who waits holds no other turn, so that no two
// wait for each other. If one of them is denied meanwhile, it returns which, and its decision.
func (g *Guard) line(ctx context.Context, s *shard, asks []ask) (at int, d headgate.Decision, how standing) {
	if g.denials == nil {
		return 0, d, itsTurn
	}
	var patience *time.Timer
	var since time.Time
	defer func() {
		if patience != nil {
			patience.Stop()
		}
	}()
	sawFailure, late := false, false
	for i := 0; i < len(asks); {
		a := &asks[i]
		if a.check.Cost == 0 || a.turn.set != nil {
			i++
			continue
		}
		t, w := g.gate.enter(a.hash, a.check, g.clock.micros(), late)
		if w == nil {
			if t.set == nil || late {
				g.counters.ungated.Add(1)
			}
			a.turn = t
			i++
			continue
		}
		g.leave(asks)
		if patience == nil {
			// What is left of a call under way, and one more: its answer will be shared.
			patience, since = time.NewTimer(2*g.options.Deadline), time.Now()
			g.counters.waits.Add(1)
		}
		why, how := g.wait(ctx, s, a.hash, w, patience)
		a.turn = why.turn
		sawFailure = sawFailure || why.failed
		switch {
		case how == isLate && !sawFailure:
			late = true
		case how == isLate, why.failed && time.Since(since) >= g.options.Deadline/2:
			g.leave(asks)
			return i, d, cannotAsk
		case how != itsTurn:
			g.leave(asks)
			return i, d, how
		}
		if at, d, ok := g.news(asks, i, why); ok {
			g.leave(asks)
			return at, d, isDenied
		}
		i = 0
	}
	return 0, d, itsTurn
}

// news tells whether one of the asks turns out to be denied when number i of them is woken.
func (g *Guard) news(asks []ask, i int, why wake) (at int, d headgate.Decision, denied bool) {
	now := g.clock.micros()
	if why.shared && why.denial != nil && why.denial.is(asks[i].hash, asks[i].check) {
		if d, ok := why.denial.share(asks[i].check.Cost, now); ok {
			g.counters.shared.Add(1)
			return i, d, true
		}
	}
	for at := range asks {
		if d, ok := g.denials.lookup(asks[at].hash, asks[at].check, now); ok {
			g.counters.cacheHits.add()
			return at, d, true
		}
	}
	return 0, d, false
}

// wait waits until a waiter is woken.
func (g *Guard) wait(ctx context.Context, s *shard, hash uint64, w *waiter, patience *time.Timer) (wake, standing) {
	how := itsTurn
	select {
	case why := <-w.woken:
		return why, itsTurn
	case <-*s.opened.Load():
		how = cannotAsk
	case <-ctx.Done():
		how = hasEnded
	case <-patience.C:
		how = isLate
	}
	why, woken := g.gate.giveUp(hash, w)
	if woken && how == isLate {
		how = itsTurn
	}
	return why, how
}

// leave gives up the turns of asks for nothing.
func (g *Guard) leave(asks []ask) {
	for i := range asks {
		if asks[i].turn.set != nil {
			asks[i].turn.leave(answer{}, g.clock.micros())
		}
	}
}

// learn takes in the answers to asks and ends their turns.
func (g *Guard) learn(asks []ask, asked int64, decisions []headgate.Decision) {
	if g.denials == nil {
		return
	}
	now := g.clock.micros()
	for i := range asks {
		a, d := &asks[i], &decisions[i]
		told := answer{outcome: untaken, remaining: d.Remaining, asked: asked}
		switch {
		case d.Degraded:
			told.outcome = vague
		case d.Limit == 0:
			told.outcome = unused
		default:
			told.denial = g.denials.learn(a.hash, a.check, asked, a.gen, d)
			if d.Receipt.Units > 0 {
				told.outcome = taken
			}
		}
		a.turn.leave(told, now)
	}
}

// fail ends the turns of asks that got no answer.
func (g *Guard) fail(asks []ask) {
	for i := range asks {
		asks[i].turn.leave(answer{outcome: unheard}, g.clock.micros())
	}
}
