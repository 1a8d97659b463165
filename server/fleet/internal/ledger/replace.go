package ledger

import (
	"slices"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// Each algorithm has one of several kinds of state; see [algorithm.Kind]. When the limit of a key changes to an
// algorithm of another kind, peers may count the key under the old limit for a while. So a key has one record for each
// kind.
//
// One of these records is the current record. It is the record of the latest take or charge on this node; if there was
// none, it is the oldest record. The current record counts the consumption of all nodes, including peers that use a
// limit of another kind. The other records are replaced records. They have only totals, for sending and comparing.

// kindByte is the byte of a Key that depends on the kind.
const kindByte = 15

// currentRecord returns the current record of a key that has a record of another kind than the given one. Otherwise it
// returns nil. It ignores concurrency limits, because their slots are not consumption.
func (sh *shard) currentRecord(key tally.Key, kind algorithm.Kind) *record {
	if kind == algorithm.KindLeases || sh.kinds&^(1<<kind) == 0 {
		return nil
	}
	for k := range algorithm.KindLeases {
		if k == kind || sh.kinds>>k&1 == 0 {
			continue
		}
		other := key
		other[kindByte] ^= byte(k) ^ byte(kind)
		if r := sh.records[other]; r != nil { // any record leads to the current one
			return r.current()
		}
	}
	return nil
}

// otherKinds is additional state of a record whose key has records of other kinds.
type otherKinds struct {
	replacedBy *record // nil for the current record
	// moved is the number of units that were moved from a replaced record into the open window of this record. This node
	// sends moved, because peers may not know these units.
	moved    int64
	tookOver bool // this record replaced another one during the open window
}

// limitReplaced reports whether another record is the current one.
func (r *record) limitReplaced() bool {
	return r.extra.kinds != nil && r.extra.kinds.replacedBy != nil
}

// current returns the current record for the key of a record.
func (r *record) current() *record {
	for r.limitReplaced() {
		r = r.extra.kinds.replacedBy
	}
	return r
}

// setReplacedBy sets the record that replaces this one, or makes this record the current one if by is nil.
func (r *record) setReplacedBy(by *record) {
	if r.extra.kinds == nil {
		r.extra.kinds = &otherKinds{}
	}
	*r.extra.kinds = otherKinds{replacedBy: by}
}

func (r *record) tookOver() bool { return r.extra.kinds != nil && r.extra.kinds.tookOver }

// movedUnits returns the number of units that were moved from a replaced record into the open window.
func (r *record) movedUnits() int64 {
	if r.extra.kinds == nil {
		return 0
	}
	return r.extra.kinds.moved
}

// forgetMoved clears the number of moved units when their window has ended.
func (r *record) forgetMoved() {
	if r.extra.kinds != nil {
		r.extra.kinds.moved, r.extra.kinds.tookOver = 0, false
	}
}

// replaceDropped updates replacedBy of a key's other records after r was dropped. If r was the current record, another
// record of the key becomes the current one.
func (sh *shard) replaceDropped(r *record) {
	if r.plan.Kind == algorithm.KindLeases || sh.kinds&^(1<<r.plan.Kind) == 0 {
		return
	}
	var next *record
	if r.limitReplaced() {
		next = r.extra.kinds.replacedBy
	}
	for k := range algorithm.KindLeases {
		key := r.key
		key[kindByte] ^= byte(k) ^ byte(r.plan.Kind)
		other := sh.records[key]
		if other == nil || other.extra.kinds == nil || other.extra.kinds.replacedBy != r {
			continue
		}
		if other.extra.kinds.replacedBy = next; next == nil {
			next = other // it becomes the current record
		}
	}
}

// replace makes r the current record in place of old, which is of another kind, and moves the consumed units from old
// to r. They count as consumed at the time of the latest decision.
func (l *Ledger) replace(old, r *record, p *quota.Plan, offset int64, now moment) {
	l.advance(old, now)
	oldPlan := r.plan
	r.plan, r.offset = p, offset
	if w := p.WindowOf(r.time(now)); p.HasWindows() && (w != r.window.start || p.StateFormat() != oldPlan.StateFormat()) {
		r.window.start, r.window.clockAhead, r.join.totalsVoid = w, now.clockAhead, false
		r.restartTotal(now)
		for i := range r.peers {
			r.peers[i].windowsAgo = longAgo
		}
	}
	r.usage, r.pending, r.debt.deepest = quota.Counter{}, 0, 0
	r.window.earlier = nil
	l.advance(r, now)
	shift := r.time(now) - old.time(now)
	at, units := old.consumedAt(&old.usage, old.plan, now)
	if !old.plan.HasWindows() || old.debt.window <= old.window.start {
		units += old.pending
	}
	at += shift
	r.usage.Set(p, at, units)
	r.changedAt, r.emptyAt = at, r.time(now)
	if p.IsBucket() && units > 0 {
		r.emptyAt = at + r.usage.Decide(p, at, 0).ResetAfter.Microseconds()
	}
	r.setReplacedBy(nil)
	if p.HasWindows() && !r.join.totalsVoid && at >= r.window.start {
		r.extra.kinds.moved, r.extra.kinds.tookOver = max(0, min(units-r.takenInWindow(), p.Capacity())), true
	}
	// The moved units did not drain from this bucket, so its empty time must not count.
	r.forgetEmptyTime()
	if r.extra.local != nil && old.extra.local != nil {
		at, units := old.consumedAt(&old.extra.local.Counter, old.extra.local.Plan, now)
		r.extra.local.Plan = l.localPlan(p)
		r.extra.local.Set(r.extra.local.Plan, at+shift, units)
		old.extra.local.Counter = quota.Counter{}
	}
	r.status.noEviction, r.status.denied = old.status.noEviction || old.status.denied, false
	old.usage, old.pending, old.debt.deepest = quota.Counter{}, 0, 0
	old.window.earlier = nil
	old.status.noEviction, old.status.denied, old.join.totalsVoid, old.emptyAt = false, false, true, old.time(now)
	old.setReplacedBy(r)
}

// consumedAt returns the time when a counter of the record last changed, and the consumed units at that time. If the
// counter has drained, it returns 0 units.
func (r *record) consumedAt(c *quota.Counter, p *quota.Plan, now moment) (at, units int64) {
	at = r.time(now)
	if !p.IsBucket() {
		return c.Consumed(p, at)
	}
	if c.Level(p, at) == 0 {
		return at, 0
	}
	at = min(r.changedAt, at)
	return at, c.Level(p, at)
}

// asIfReplaced returns a copy of old as it would be after a change to a plan of another kind. It changes no record.
func (l *Ledger) asIfReplaced(old *record, key tally.Key, p *quota.Plan, offset int64, now moment) *record {
	r := &record{
		key: key, plan: p, offset: offset, addedAt: old.addedAt,
		status: recordStatus{class: none, gap: none}, window: windowState{clockAhead: now.clockAhead},
	}
	if old.extra.local != nil {
		r.extra.local = &quota.Bound{}
	}
	l.replace(old.clone(), r, p, offset, now)
	return r
}

// clone returns an independent copy of a record.
func (r *record) clone() *record {
	other := *r
	other.peers = slices.Clone(r.peers)
	other.usage = r.usage.Clone()
	if r.extra.local != nil {
		other.extra.local = &quota.Bound{Counter: r.extra.local.Clone(), Plan: r.extra.local.Plan}
	}
	if r.window.earlier != nil {
		units := r.window.units()
		other.window.earlier = &units
	}
	if r.extra.kinds != nil {
		kinds := *r.extra.kinds
		other.extra.kinds = &kinds
	}
	if r.extra.observed != nil {
		observed := *r.extra.observed
		other.extra.observed = &observed
	}
	return &other
}

// undrained returns the number of units in a peer's first tally that have not drained yet.
func (r *record) undrained(u *update) int64 {
	if !r.plan.IsBucket() {
		return u.Total
	}
	return max(min(u.Total, u.Level), u.Total-r.plan.DrainedOf(u.Total, u.age.Microseconds()))
}
