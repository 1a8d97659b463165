package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Whoever hears of a peer for the first time has to find out how much of its total is counted here already. If our account is
// the older one, nothing is. Else we are the newcomer and begin at the peer's level, which may hold what we consumed, and what
// third nodes did whose totals we have heard, or are about to. Who has told whom of what is not known, but sums are: what counts
// is what all nodes consumed, less what has leaked. So
//
//   - we are never below the sum of all totals, less what can have leaked since the first of them began;
//   - what is in a level that was taken over and in none of the totals was consumed by nodes that we are yet to hear of, or yet to
//     hear more of: when we do, it is not counted again.
//
// As long as nothing can have leaked both say the same, and each unit is counted once, in whatever order news comes. After that,
// times decide what a peer can know of us, and a newcomer may be off by what it, or a third node, consumed about when it came.
//
// From a fixed window nothing leaks until it ends. Who came while it was open, and can hear of totals only from those who live,
// begins at their level just so.

// meet begins an account of a peer, or of a new record of one, and returns how much of its total is counted already.
func (l *Ledger) meet(r *record, s *seen, t *Tally, first bool, age, late time.Duration, now moment) (known int64) {
	if !first || !r.plan.IsBucket() && !l.beganIn(r, t, now) {
		return 0
	}
	at := r.at(now)
	began := at - age.Microseconds()
	r.oldest = min(r.oldest, began)
	r.void = r.void || t.Reset
	newcomer := age > l.watch(r, now)
	if newcomer && l.self == 0 && r.leaked(now) > 0 { // times matter, and they are not known any better
		newcomer = age > l.watch(r, now)+l.options.Lag
	}
	if newcomer {
		l.join(r, t, late, now)
		r.joined = at
		r.carried = max(r.carried, min(t.Carried, r.mostOwed())) // it is in the level
		r.unsure, s.older = r.plan.IsBucket() && l.self != 0, true
		return t.Total
	}
	return r.counted(t.Total, began, now)
}

// beganIn reports whether this record began in the fixed window that a tally is of, so that all that it has heard is of that
// window. Who asks hears of those who are gone as well, and goes by totals.
func (l *Ledger) beganIn(r *record, t *Tally, now moment) bool {
	return r.plan.Kind == algorithm.KindWindow && !l.asks && t.Window == r.window &&
		r.at(now)-(now.uptime-r.born).Microseconds() >= r.window
}

// leaked returns how much can have leaked since the first record began of all that were heard of.
func (r *record) leaked(now moment) int64 {
	if !r.plan.IsBucket() {
		return 0
	}
	return r.plan.UnitsIn(r.at(now)-r.oldest, headgate.MaxCount)
}

// counted returns how much of what a peer consumed since some time is in a level that was taken over, and of the window that is
// open, if there are any.
func (r *record) counted(units, since int64, now moment) int64 {
	if since >= r.joined || r.void || r.plan.HasWindows() && r.joined < r.window {
		return 0
	}
	return max(0, min(units, r.level(now)-r.total-r.heardOf()))
}

// heardOf returns what peers consumed.
func (r *record) heardOf() (units int64) {
	for i := range r.seen {
		if s := &r.seen[i]; !s.past {
			units += min(s.total, headgate.MaxCount)
		}
	}
	return units
}

// join raises what counts as consumed to what the peer says, and what this node consumed that the peer cannot know of.
func (l *Ledger) join(r *record, t *Tally, late time.Duration, now moment) {
	level := r.level(now)
	sum := r.heardOf() + min(t.Total, headgate.MaxCount)
	leaked := r.leaked(now)
	own := l.unknown(r, t, late, now)
	if leaked == 0 && !r.void {
		own = r.total - max(0, min(r.mayKnow(t), t.Level-sum))
	}
	own = min(own, level)
	more := t.Level + own - level
	if r.plan.IsBucket() {
		// What leaked here while the note was under way was of one and the same limit, and has not leaked from the peer's too.
		alone := t.Age.Microseconds()
		if own > 0 {
			alone = min(alone, max(0, alone-(now.uptime-r.born).Microseconds()+r.waste))
		}
		more -= r.plan.UnitsIn(alone, t.Level)
	}
	if !r.void && t.Level+leaked >= t.Total { // else it was reset, or much was given back
		more = max(more, r.total+sum-leaked-level)
	}
	l.chargeNews(r, more, r.window, now)
}

// mayKnow returns how much of what this node consumed a peer may know.
func (r *record) mayKnow(t *Tally) int64 {
	if t.Bounded {
		return min(t.MayKnow, r.sent)
	}
	return r.sent
}

// unknown returns how much of what this node consumed is not in the level that a peer tells: all of it if the peer wrote
// before it was told anything, and else what nobody was told.
func (l *Ledger) unknown(r *record, t *Tally, late time.Duration, now moment) int64 {
	age := t.Age
	if age == 0 {
		age = late - l.options.Lag/4
	}
	if l.asks {
		age += l.options.Lag / 16 // who asks hears, and tells what he heard in his next turn, which is not that soon
	}
	if r.toldAt == 0 || r.at(now)-age.Microseconds() <= r.toldAt {
		return r.total
	}
	return r.total - r.mayKnow(t)
}
