package ledger

import (
	"slices"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// A key has a record for each kind of state of its limits, since peers may still count it under another limit. One of
// them is in force: the one of the latest take or charge here, otherwise the oldest. It has all consumption, including
// that of peers under a limit of another kind. A replaced record only has totals, to send and to compare.

// kindByte is the byte of a Key that depends on the kind.
const kindByte = 15

// inForce returns the record in force of a key that has no record of its own kind, or a replaced one. It returns nil if
// the key is counted under no other limit. Slots of concurrency are not consumption.
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

// otherKinds is what a record needs if its key has records of other kinds.
type otherKinds struct {
	replacedBy *record // nil for the one in force
	// moved is the number of units moved into the open window from the record that this one replaced. It is sent to peers
	// that did not see it.
	moved    int64
	tookOver bool // in the open window
}

// replaced reports whether a record of another kind is in force.
func (r *record) replaced() bool {
	return r.optional.kinds != nil && r.optional.kinds.replacedBy != nil
}

// current returns the record in force for the key of a record.
func (r *record) current() *record {
	for r.replaced() {
		r = r.optional.kinds.replacedBy
	}
	return r
}

// setReplacedBy sets the record in force, nil for this one.
func (r *record) setReplacedBy(by *record) {
	if r.optional.kinds == nil {
		r.optional.kinds = &otherKinds{}
	}
	*r.optional.kinds = otherKinds{replacedBy: by}
}

func (r *record) tookOver() bool { return r.optional.kinds != nil && r.optional.kinds.tookOver }

// movedUnits returns the units moved into the open window.
func (r *record) movedUnits() int64 {
	if r.optional.kinds == nil {
		return 0
	}
	return r.optional.kinds.moved
}

// forgetMoved forgets the units moved into a window that has ended.
func (r *record) forgetMoved() {
	if r.optional.kinds != nil {
		r.optional.kinds.moved, r.optional.kinds.tookOver = 0, false
	}
}

// replaceDropped puts another record in force when one is dropped.
func (sh *shard) replaceDropped(r *record) {
	if r.plan.Kind == algorithm.KindLeases || sh.kinds&^(1<<r.plan.Kind) == 0 {
		return
	}
	var next *record
	if r.replaced() {
		next = r.optional.kinds.replacedBy
	}
	for k := range algorithm.KindLeases {
		other := r.key
		other[kindByte] ^= byte(k) ^ byte(r.plan.Kind)
		if o := sh.records[other]; o != nil && o.replaced() && o.optional.kinds.replacedBy == r {
			if o.optional.kinds.replacedBy = next; next == nil {
				next = o
			}
		}
	}
}

// replace puts a record in force in place of one of another kind. Its consumption counts as taken at the latest
// decision.
func (l *Ledger) replace(old, r *record, p *quota.Plan, offset int64, now moment) {
	l.advance(old, now)
	before := r.plan
	r.plan, r.offset = p, offset
	if w := p.WindowOf(r.at(now)); p.HasWindows() && (w != r.window.start || p.Shape() != before.Shape()) {
		r.window.start, r.window.clockAhead, r.join.totalsVoid = w, now.clockAhead, false
		r.restart(now)
		for i := range r.peers {
			r.peers[i].pastWindow, r.peers[i].nextWindow = true, false
		}
	}
	r.consumed, r.owed, r.debt.deepest, r.window.carried, r.window.previous = quota.Counter{}, 0, 0, 0, 0
	l.advance(r, now)
	shift := r.at(now) - old.at(now)
	at, units := old.consumedAt(&old.consumed, old.plan, now)
	if !old.plan.HasWindows() || old.debt.window <= old.window.start {
		units += old.owed
	}
	at += shift
	r.consumed.Set(p, at, units)
	r.changedAt, r.emptyAt = at, r.at(now)
	if p.IsBucket() && units > 0 {
		r.emptyAt = at + r.consumed.Decide(p, at, 0).ResetAfter.Microseconds()
	}
	r.setReplacedBy(nil)
	if p.HasWindows() && !r.join.totalsVoid && at >= r.window.start {
		r.optional.kinds.moved, r.optional.kinds.tookOver = max(0, min(units-r.takenByAll(), p.Capacity())), true
	}
	// None of these units drained while the bucket was empty.
	r.forgetEmptyTime()
	if r.optional.local != nil && old.optional.local != nil {
		at, units := old.consumedAt(&old.optional.local.Counter, old.optional.local.plan, now)
		r.optional.local.plan = l.localPlan(p)
		r.optional.local.Set(r.optional.local.plan, at+shift, units)
		old.optional.local.Counter = quota.Counter{}
	}
	r.status.protected, r.status.denied = old.status.protected || old.status.denied, false
	old.consumed, old.owed, old.debt.deepest, old.window.carried, old.window.previous = quota.Counter{}, 0, 0, 0, 0
	old.status.protected, old.status.denied, old.join.totalsVoid, old.emptyAt = false, false, true, old.at(now)
	old.setReplacedBy(r)
}

// consumedAt returns when a counter of the record last changed and its level then, or 0 units if it is drained.
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

// lastDecision returns the time of the decision from which a bucket drains at the rate of a changed limit.
func (r *record) lastDecision(now int64) int64 {
	last := r.changedAt
	if r.debt.deepest > 0 {
		last = max(last, r.requestedAt)
	}
	return min(last, now)
}

// asIfReplaced returns the record that would be in force under a plan of another kind. It changes no record.
func (l *Ledger) asIfReplaced(old *record, key Key, p *quota.Plan, offset int64, now moment) *record {
	r := &record{
		key: key, plan: p, offset: offset, addedAt: old.addedAt,
		status: recordStatus{class: none, gap: none}, window: windowState{clockAhead: now.clockAhead},
	}
	if old.optional.local != nil {
		r.optional.local = &extraCounter{}
	}
	l.replace(old.clone(), r, p, offset, now)
	return r
}

// clone returns an independent copy of a record.
func (r *record) clone() *record {
	other := *r
	other.peers = slices.Clone(r.peers)
	other.consumed = r.consumed.Clone()
	if r.optional.local != nil {
		other.optional.local = &extraCounter{Counter: r.optional.local.Clone(), plan: r.optional.local.plan}
	}
	if r.optional.kinds != nil {
		kinds := *r.optional.kinds
		other.optional.kinds = &kinds
	}
	if r.optional.observed != nil {
		observed := *r.optional.observed
		other.optional.observed = &observed
	}
	return &other
}

// undrained returns how many units of a peer's first tally still count.
func (r *record) undrained(u *update) int64 {
	if !r.plan.IsBucket() {
		return u.Total
	}
	return max(min(u.Total, u.Level), u.Total-r.plan.UnitsIn(u.age.Microseconds(), u.Total))
}
