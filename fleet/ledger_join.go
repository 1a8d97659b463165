package fleet

import (
	"time"

	"github.com/headgate/headgate"
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

// meet begins an account of a peer, or of a new record of one, and returns how much of its total is counted already.
func (l *Ledger) meet(r *record, t *Tally, first bool, age, late time.Duration, now moment) (known int64) {
	if !first || !r.plan.leaks() {
		return 0
	}
	at := r.at(now)
	began := at - age.Microseconds()
	r.oldest = min(r.oldest, began)
	r.void = r.void || t.Reset
	if age > l.watch(r, now)+l.options.Lag {
		l.join(r, t, late, now)
		r.joined = at
		return t.Total
	}
	return r.counted(t.Total, began, now)
}

// counted returns how much of what a peer consumed since some time is in a level that was taken over.
func (r *record) counted(units, since int64, now moment) int64 {
	if since >= r.joined || r.void || !r.plan.leaks() {
		return 0
	}
	return max(0, min(units, r.level(now)-r.total-r.heardOf()))
}

// heardOf returns what peers consumed.
func (r *record) heardOf() (units int64) {
	for i := range r.seen {
		units += min(r.seen[i].total, headgate.MaxCount)
	}
	return units
}

// join raises what counts as consumed to what the peer says, and what this node consumed that the peer cannot know of.
func (l *Ledger) join(r *record, t *Tally, late time.Duration, now moment) {
	level := r.level(now)
	sum := r.heardOf() + min(t.Total, headgate.MaxCount)
	leaked := r.plan.unitsIn(r.at(now)-r.oldest, headgate.MaxCount)
	own := l.unknown(r, t, late, now)
	if leaked == 0 && !r.void {
		own = r.total - max(0, min(r.mayKnow(t), t.Level-sum))
	}
	own = min(own, level)
	// What leaked here while the note was under way was of one and the same limit, and has not leaked from the peer's too.
	alone := t.Age.Microseconds()
	if own > 0 {
		alone = min(alone, max(0, alone-(now.uptime-r.born).Microseconds()+r.waste))
	}
	more := t.Level - r.plan.unitsIn(alone, t.Level) + own - level
	if !r.void && t.Level+leaked >= t.Total { // else it was reset, or much was given back
		more = max(more, r.total+sum-leaked-level)
	}
	l.chargeNews(r, more, r.window, now)
}

// mayKnow returns how much of what this node consumed a peer may know.
func (r *record) mayKnow(t *Tally) int64 {
	if t.bounded {
		return min(t.sent, r.sent)
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
	if l.options.Asks {
		age += l.options.Lag / 16 // who asks hears, and tells what he heard in his next turn, which is not that soon
	}
	if r.toldAt == 0 || r.at(now)-age.Microseconds() <= r.toldAt {
		return r.total
	}
	return r.total - r.mayKnow(t)
}
