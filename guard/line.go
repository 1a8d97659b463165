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
	cannotAsk          // the shard is down, or did not answer others, or there is no time left
	hasEnded           // the caller has
	isLate             // it has waited long enough
	isRefused          // too many requests wait
)

// A stay is the time that a request spends in line. It is part of the deadline.
type stay struct {
	since  time.Time // zero if it has not waited
	heard  bool      // the store has answered others about its keys meanwhile
	failed bool      // or has not
	last   bool      // it waits for others to the end, as it will not ask by itself
	late   bool      // it asks without waiting for others
	rested bool      // it has waited for a denial to be over for certain
}

// line waits until it is the turn of all asks, which are for one shard and were admitted there; while they wait they do not
// count as admitted. Who waits holds no other turn, so that no two
// wait for each other. It returns since when it has waited, zero if it has not. If one of the asks is denied meanwhile, it
// returns which, and its decision.
func (g *Guard) line(ctx context.Context, s *shard, asks []ask) (at int, d headgate.Decision, since time.Time, how standing) {
	if g.denials == nil {
		return 0, d, since, itsTurn
	}
	st := stay{late: g.reserve(s) >= g.options.Deadline}
	for i := 0; i < len(asks); {
		a := &asks[i]
		if a.check.Cost == 0 || a.turn.set != nil {
			i++
			continue
		}
		var why wake
		if pause := g.doubt(a, &st); pause > 0 {
			g.leave(asks)
			g.stays(&st)
			s.admission.leave(false)
			how, st.rested = g.rest(ctx, s, pause), true
			s.admission.resume()
		} else {
			t, w := g.gate.enter(a.hash, a.check, g.clock.micros(), st.late)
			if w == nil {
				if t.set == nil || st.late && t.scout {
					g.counters.ungated.Add(1)
				}
				a.turn = t
				i++
				continue
			}
			g.leave(asks)
			g.stays(&st)
			s.admission.leave(false)
			why, how = g.await(ctx, s, a.hash, w, &st)
			s.admission.resume()
			a.turn = why.turn
		}
		if how != itsTurn {
			g.leave(asks)
			return i, d, st.since, how
		}
		if at, d, ok := g.news(asks, i, why); ok {
			g.leave(asks)
			return at, d, st.since, isDenied
		}
		i = 0
	}
	if !st.since.IsZero() && g.left(&st) < time.Duration(s.took.Load()) {
		g.leave(asks)
		return 0, d, st.since, g.givesUp(s)
	}
	return 0, d, st.since, itsTurn
}

// givesUp returns how a request ends that has waited for others as long as it can: its policy decides, or it is refused if
// that took so long because this process has too much to do.
func (g *Guard) givesUp(s *shard) standing {
	if s.inRow.Load() == 0 && (s.admission.queued.Load() > 0 || g.terms.lags(s)) {
		return isRefused
	}
	return cannotAsk
}

// reserve is how much of the deadline is kept for a call of one's own, after waiting for others. From a store whose answers
// take half the deadline there is no time to wait for others.
func (g *Guard) reserve(s *shard) time.Duration {
	took := time.Duration(s.took.Load())
	if took == 0 {
		return g.options.Deadline / 2
	}
	return max(2*took, g.options.Deadline/4)
}

// stays notes that a request waits.
func (g *Guard) stays(st *stay) {
	if st.since.IsZero() {
		st.since = time.Now()
		g.counters.waits.Add(1)
	}
}

// left is what is left of the deadline.
func (g *Guard) left(st *stay) time.Duration { return g.options.Deadline - time.Since(st.since) }

// doubt returns how long it is not worth asking: a denial has expired if the store made it at the earliest possible time,
// and not if it made it at the latest. A caller that asks now is likely to be denied, and so is the next one.
func (g *Guard) doubt(a *ask, st *stay) time.Duration {
	if st.late || st.rested {
		return 0
	}
	pause := micros(g.denials.doubt(a.hash, a.check, g.clock.micros()))
	if pause > g.options.Deadline/8 {
		return 0
	}
	return pause
}

// rest waits for a while.
func (g *Guard) rest(ctx context.Context, s *shard, pause time.Duration) standing {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return itsTurn
	case <-*s.opened.Load():
		return cannotAsk
	case <-ctx.Done():
		return hasEnded
	}
}

// news reports whether one of the asks turns out to be denied when number i of them is woken.
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

// await waits until a waiter is woken, or has waited long enough: it then asks the store itself, unless other callers should
// have got a response by then and did not.
func (g *Guard) await(ctx context.Context, s *shard, hash uint64, w *waiter, st *stay) (wake, standing) {
	patience := g.left(st)
	if !st.last {
		patience -= g.reserve(s)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	why, how := wake{}, itsTurn
	select {
	case why = <-w.woken:
	case <-*s.opened.Load():
		how = cannotAsk
	case <-ctx.Done():
		how = hasEnded
	case <-timer.C:
		how = isLate
	}
	if how != itsTurn {
		var woken, heard bool
		why, woken, heard = g.gate.giveUp(hash, w)
		st.heard = st.heard || heard
		if how == isLate && woken {
			how = itsTurn
		}
	}
	switch {
	case how == isLate && st.last:
		return why, g.givesUp(s)
	case how == isLate:
		st.late = !st.failed && (st.heard || time.Since(st.since) < 2*time.Duration(s.took.Load()))
		st.last = !st.late
		return why, itsTurn
	case how != itsTurn:
		return why, how
	case !why.failed:
		st.heard = true
	case g.left(st) <= g.options.Deadline/2:
		return why, cannotAsk
	default:
		st.failed = true
	}
	return why, itsTurn
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
			told.denial = g.denials.learn(a.hash, a.check, asked, now, a.gen, d)
			if d.Receipt.Units > 0 {
				told.outcome = taken
			}
			if d.Allowed && told.denial != nil {
				if _, denies := told.denial.answer(a.check.Cost, now); !denies { // any more
					told.denial = nil
				}
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
