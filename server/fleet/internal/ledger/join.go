package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A node that receives a peer's first tally has to find out how much of the peer's total is counted here already. If
// this node's record is older, nothing is. Otherwise this node is the newcomer and starts at the peer's level, which
// may include units that this node consumed, and those of third nodes whose totals have arrived or will. It is not
// known which node knows of which units. But the level is the sum of all units consumed, minus those that have drained.
// So
//
//   - the level is never below the sum of all totals, minus what can have drained since the first of them started;
//   - units of an adopted level that are in no total were consumed by nodes whose updates are still to come, and are
//     not counted again then.
//
// As long as nothing can have drained, both rules give the same result, and each unit is counted once in any order of
// updates. After that, times decide what a peer can know, and a newcomer may be off by the units consumed about when it
// joined.
//
// A fixed window drains nothing until it ends. A node that joined in the window, and receives totals of live nodes
// only, starts at their level.

// meetPeer starts the account of a peer or of its new record, and returns how much of its total is counted already.
func (l *Ledger) meetPeer(r *record, u *update, now moment) (known int64) {
	switch {
	case !u.first:
		return 0
	case r.replaced():
		return u.Total - r.undrained(u)
	case !r.plan.IsBucket() && !l.startedInWindow(r, u.Tally, now):
		return 0
	}
	at := r.at(now)
	began := at - u.age.Microseconds()
	earlier := max(0, r.join.oldest-began)
	r.join.oldest -= earlier
	r.join.totalsVoid = r.join.totalsVoid || u.Reset
	newcomer := u.age > l.observedFor(r, now)
	if newcomer && l.pulls && r.drainedSinceOldest(now) > 0 { // times matter, and are not known more exactly
		newcomer = u.age > l.observedFor(r, now)+l.options.Lag
	}
	if newcomer {
		l.adoptLevel(r, u, now)
		r.join.at = at
		r.window.carried = max(r.window.carried, min(u.Carried, r.maxOwed())) // it is part of the level
		r.join.guessed, u.peer.older = r.plan.IsBucket(), true
		return u.Total
	}
	if l.pulls {
		r.emptyTime += earlier // there was no record, and units of the peer may have drained
	}
	return r.alreadyCounted(u.Total, began, now)
}

// startedInWindow reports whether this record started in the fixed window of the tally, so that all updates are of that
// window. A ledger that pulls also receives totals of nodes that are gone, so it can count by totals instead.
func (l *Ledger) startedInWindow(r *record, t *Tally, now moment) bool {
	return r.plan.Kind == algorithm.KindWindow && !l.pulls && t.Window == r.window.start &&
		r.at(now)-(now.uptime-r.addedAt).Microseconds() >= r.window.start
}

// drainedSinceOldest returns how much can have drained since the oldest known record started.
func (r *record) drainedSinceOldest(now moment) int64 {
	if !r.plan.IsBucket() {
		return 0
	}
	return r.plan.UnitsIn(r.at(now)-r.join.oldest, headgate.MaxCount)
}

// alreadyCounted returns how many of the units that a peer consumed since a time are part of an adopted level, and of
// the open window if there are windows.
func (r *record) alreadyCounted(units, since int64, now moment) int64 {
	if since >= r.join.at || r.join.totalsVoid || r.plan.HasWindows() && r.join.at < r.window.start {
		return 0
	}
	return max(0, min(units, r.level(now)-r.total-r.peersConsumed()))
}

// peersConsumed returns the units that peers consumed.
func (r *record) peersConsumed() (units int64) {
	for i := range r.peers {
		if peer := &r.peers[i]; !peer.pastWindow {
			units += min(peer.total, headgate.MaxCount)
		}
	}
	return units
}

// adoptLevel raises the level to the peer's level plus the units of this node that the peer cannot know.
func (l *Ledger) adoptLevel(r *record, u *update, now moment) {
	t := u.Tally
	level := r.level(now)
	sum := r.peersConsumed() + min(t.Total, headgate.MaxCount)
	drained := r.drainedSinceOldest(now)
	own := l.unknownToPeer(r, u, now)
	if drained == 0 && !r.join.totalsVoid {
		own = r.total - max(0, min(r.knownUnits(t), t.Level-sum))
	}
	own = min(own, level)
	more := t.Level + own - level
	if r.plan.IsBucket() {
		// Units that drained here while the tally was in transit belong to the same limit: they did not also drain at the
		// peer.
		inTransit := t.Age.Microseconds()
		if own > 0 {
			inTransit = min(inTransit, max(0, inTransit-(now.uptime-r.addedAt).Microseconds()+r.emptyTime))
		}
		more -= r.plan.UnitsIn(inTransit, t.Level)
	}
	if !r.join.totalsVoid && t.Level+drained >= t.Total { // otherwise it was reset, or many units were given back
		more = max(more, r.total+sum-drained-level)
	}
	l.chargePeers(r, more, r.window.start, now)
}

// knownUnits returns how many of this node's units a peer may know.
func (r *record) knownUnits(t *Tally) int64 {
	if t.HasKnownUnits {
		return min(t.KnownUnits, r.sent.highest)
	}
	return r.sent.highest
}

// unknownToPeer returns how many of this node's units are not in a peer's level: all if the peer wrote it before
// anything was sent, otherwise those that were not sent.
func (l *Ledger) unknownToPeer(r *record, u *update, now moment) int64 {
	age := u.Age
	if age == 0 {
		age = u.lag
	}
	if l.pulls {
		age += l.options.Lag / 16 // a node that pulls sends in a later exchange what it received
	}
	if r.sent.firstAt == 0 || r.at(now)-age.Microseconds() <= r.sent.firstAt {
		return r.total
	}
	return r.total - r.knownUnits(u.Tally)
}
