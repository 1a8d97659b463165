package ledger

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// A key has a record for each kind of state that its limits had, since peers may still count it by another limit. One of them is
// in force: the one of the latest take or charge here, else the oldest. All that counts as consumed is in that one, also what
// peers consume by a limit of another kind. A record that was replaced only has totals, to tell and to compare.

// kindByte is the byte of a Key that depends on the kind.
const kindByte = 15

// inForce returns the record in force of a key, which has none of the kind of the key or one that was replaced. It is nil if
// the key is counted by no other limit. Slots of concurrency are no consumption.
func (sh *shard) inForce(key Key, kind algorithm.Kind) *record {
	if kind == algorithm.KindLeases || sh.kinds&^(1<<kind) == 0 {
		return nil
	}
	for k := range algorithm.KindLeases {
		if k == kind || sh.kinds>>k&1 == 0 {
			continue
		}
		other := key
		other[kindByte] ^= byte(k) ^ byte(kind)
		if r := sh.records[other]; r != nil {
			return r.current()
		}
	}
	return nil
}

// kin is what a record needs besides if its key has records of other kinds.
type kin struct {
	replacedBy *record // nil for the one in force
	// moved is what was moved into the window that is open from the record that this one replaced. Nodes are told that did not see
	// it.
	moved    int64
	tookOver bool // in the window that is open
}

// replaced reports whether a record of another kind is in force in place of this one.
func (r *record) replaced() bool { return r.kin != nil && r.kin.replacedBy != nil }

// current returns the record that is in force for the key of a record.
func (r *record) current() *record {
	for r.replaced() {
		r = r.kin.replacedBy
	}
	return r
}

// replacedWith notes which record is in force in place of this one, nil if it is itself.
func (r *record) replacedWith(by *record) {
	if r.kin == nil {
		r.kin = &kin{}
	}
	*r.kin = kin{replacedBy: by}
}

func (r *record) tookOver() bool { return r.kin != nil && r.kin.tookOver }

// movedHere returns what was moved into the window that is open.
func (r *record) movedHere() int64 {
	if r.kin == nil {
		return 0
	}
	return r.kin.moved
}

// forgetMoved forgets what was moved into a window that has ended.
func (r *record) forgetMoved() {
	if r.kin != nil {
		r.kin.moved, r.kin.tookOver = 0, false
	}
}

// forsake has another record be in force in place of one that is dropped.
func (sh *shard) forsake(r *record) {
	if r.plan.Kind == algorithm.KindLeases || sh.kinds&^(1<<r.plan.Kind) == 0 {
		return
	}
	var next *record
	if r.replaced() {
		next = r.kin.replacedBy
	}
	for k := range algorithm.KindLeases {
		other := r.key
		other[kindByte] ^= byte(k) ^ byte(r.plan.Kind)
		if o := sh.records[other]; o != nil && o.replaced() && o.kin.replacedBy == r {
			if o.kin.replacedBy = next; next == nil {
				next = o
			}
		}
	}
}

// replace puts a record in force in place of one of another kind: what was consumed counts as taken at the latest decision.
func (l *Ledger) replace(old, r *record, p *quota.Plan, offset int64, now moment) {
	l.roll(old, now)
	before := r.plan
	r.plan, r.offset = p, offset
	if w := p.WindowOf(r.at(now)); p.HasWindows() && (w != r.window || p.Shape() != before.Shape()) {
		r.window, r.ahead, r.void = w, now.ahead, false
		r.restart(now)
		for i := range r.seen {
			r.seen[i].past, r.seen[i].ahead = true, false
		}
	}
	r.here, r.owed, r.over, r.carried, r.before = quota.Counter{}, 0, 0, 0, 0
	l.roll(r, now)
	shift := r.at(now) - old.at(now)
	at, units := old.consumedAt(&old.here, old.plan, now)
	if !old.plan.HasWindows() || old.owedOf <= old.window {
		units += old.owed
	}
	at += shift
	r.here.Set(p, at, units)
	r.changedAt, r.emptyAt = at, r.at(now)
	if p.IsBucket() && units > 0 {
		r.emptyAt = at + r.here.Decide(p, at, 0).ResetAfter.Microseconds()
	}
	r.replacedWith(nil)
	if p.HasWindows() && !r.void && at >= r.window {
		r.kin.moved, r.kin.tookOver = max(0, min(units-r.takenByAll(), p.Capacity())), true
	}
	// Nothing of this has drained while the bucket was empty.
	r.waste = 0
	for i := range r.seen {
		r.seen[i].waste, r.seen[i].level = 0, 0
	}
	if r.alone != nil && old.alone != nil {
		at, units := old.consumedAt(old.alone, l.capped(old.plan), now)
		r.alone.Set(l.capped(p), at+shift, units)
		*old.alone = quota.Counter{}
	}
	r.stays, r.denied = old.stays || old.denied, false
	old.here, old.owed, old.over, old.carried, old.before = quota.Counter{}, 0, 0, 0, 0
	old.stays, old.denied, old.void, old.emptyAt = false, false, true, old.at(now)
	old.replacedWith(r)
}

// consumedAt returns when a counter of the record last changed and what counted then, or nothing if nothing counts now.
func (r *record) consumedAt(c *quota.Counter, p *quota.Plan, now moment) (at, units int64) {
	at = r.at(now)
	if !p.IsBucket() {
		return c.Consumed(p, at)
	}
	if c.Decide(p, at, 0).Remaining == p.Capacity() {
		return at, 0
	}
	at = r.lastDecision(at)
	return at, p.Capacity() - c.Decide(p, at, 0).Remaining
}

// lastDecision returns when the latest decision was from which on a bucket drains at the rate of a changed limit.
func (r *record) lastDecision(now int64) int64 {
	last := r.changedAt
	if r.over > 0 {
		last = max(last, r.askedAt)
	}
	return min(last, now)
}

// asReplaced returns what would be in force under a plan of another kind, and leaves all as it is.
func (l *Ledger) asReplaced(old *record, key Key, p *quota.Plan, offset int64, now moment) *record {
	r := &record{key: key, plan: p, offset: offset, born: old.born, class: none, gap: none, ahead: now.ahead}
	if old.alone != nil {
		r.alone = &quota.Counter{}
	}
	l.replace(old.clone(), r, p, offset, now)
	return r
}

// clone returns a copy of a record that shares nothing that changes.
func (r *record) clone() *record {
	other := *r
	other.seen = slices.Clone(r.seen)
	other.here = r.here.Clone()
	if r.alone != nil {
		alone := r.alone.Clone()
		other.alone = &alone
	}
	if r.kin != nil {
		kin := *r.kin
		other.kin = &kin
	}
	if r.region != nil {
		region := *r.region
		other.region = &region
	}
	return &other
}

// absorbReplaced charges what a peer consumed by a limit of another kind to the record in force.
func (l *Ledger) absorbReplaced(r *record, t *Tally, a *arrival, age time.Duration, now moment) (why string) {
	cur := r.current()
	s, first := r.peer(a.place, a.gen, l)
	news := t.Total - s.total
	switch {
	case first || t.Start > s.start:
		if t.Reset && age < now.uptime-r.born+l.options.Lag {
			cur.reset(now)
		}
		if news = t.Total; first {
			news = r.undrained(t, age)
		}
	case t.Start < s.start || news < 0 && a.uptime < s.said:
		return "" // it was late
	case news < 0:
		return ReasonFell
	}
	if most := (1 + headgate.MaxDebt) * r.plan.Capacity(); news > most {
		news, why = most, ReasonLeaped
	}
	if r.plan.HasWindows() && t.Window < r.window {
		news = 0
	}
	s.start, s.total, s.heard, s.recentAt, s.said = t.Start, t.Total, r.at(now), 0, max(a.uptime, s.said)
	s.past, s.ahead = r.plan.HasWindows() && t.Window < r.window, r.plan.HasWindows() && t.Window > r.window
	l.counters.absorbed.Add(news)
	l.roll(cur, now)
	l.chargeNews(cur, news, cur.window, now)
	return why
}

// undrained returns how much of what a peer consumed counts that was not heard of before.
func (r *record) undrained(t *Tally, age time.Duration) int64 {
	if !r.plan.IsBucket() {
		return t.Total
	}
	return max(min(t.Total, t.Level), t.Total-r.plan.UnitsIn(age.Microseconds(), t.Total))
}
