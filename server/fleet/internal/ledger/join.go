package ledger

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// When a node receives a peer's first tally, some of the peer's units may already be counted on this node. If this
// node's record is older than the peer's, none are. Otherwise this node is the newcomer, and adopts the peer's level.
// That level may include units that this node consumed, and units of third nodes whose totals arrive earlier or later.
// This node cannot know which of these units are included. But the level is the sum of all consumed units, minus the
// drained units. Two rules follow:
//
//   - The level is at least the sum of all totals, minus the units that can have drained since the oldest total
//     started.
//   - If an adopted level is higher than the sum of totals, nodes whose updates are still missing have consumed the
//     difference. These updates must not count the same units again.
//
// While nothing can have drained, both rules give the same result, and each unit is counted once in any order of
// updates. After that, the ages of updates determine which units a peer can know. The level of a newcomer may then be
// wrong by the units that were consumed around the time when it joined.
//
// A fixed window drains nothing until it ends. So a node that joins during the window, and that receives only totals of
// live nodes, starts at their level.

// startPeer adopts the level of a peer if this node is the newcomer. It is called with the first tally of a peer's
// record, and returns how much of the peer's total is counted already.
func (l *Ledger) startPeer(r *record, u *update, now moment) (known int64) {
	switch {
	case !u.firstTally:
		return 0
	case r.limitReplaced():
		return u.Total - r.undrained(u)
	case !r.plan.IsBucket() && !l.startedInWindow(r, u.Tally, now):
		return 0
	}
	at := r.time(now)
	peerStart := at - u.age.Microseconds()
	startedEarlier := max(0, r.join.oldestStart-peerStart)
	r.join.oldestStart -= startedEarlier
	r.join.totalsVoid = r.join.totalsVoid || u.Reset
	newcomer := u.age > l.observedFor(r, now)
	if newcomer && l.pulls && r.drainedSinceOldest(now) > 0 { // the ages decide, and they are accurate only to Lag
		newcomer = u.age > l.observedFor(r, now)+l.options.Lag
	}
	if newcomer {
		l.adoptLevel(r, u, now)
		r.join.adoptedAt = at
		if carried := min(u.Carried, r.maxPending()); carried > r.window.units().carried {
			r.window.change().carried = carried // included in the peer's level
		}
		r.join.levelGuessed, u.peer.older = r.plan.IsBucket(), true
		return u.Total
	}
	if l.pulls {
		r.emptyTime += startedEarlier // the time before this node had a record, in which units of the peer may have drained
	}
	return r.alreadyCounted(u.Total, peerStart, now)
}

// startedInWindow reports whether this record started in the fixed window of the tally, so that this node may have
// missed earlier updates of the window. It is false for a ledger that pulls: an exchange also has the totals of nodes
// that have left, so the ledger can count by totals.
func (l *Ledger) startedInWindow(r *record, t *tally.Tally, now moment) bool {
	return r.plan.Kind == algorithm.KindFixedWindow && !l.pulls && t.Window == r.window.start &&
		r.time(now)-(now.uptime-r.addedAt).Microseconds() >= r.window.start
}

// drainedSinceOldest returns how many units can have drained since the oldest known total started.
func (r *record) drainedSinceOldest(now moment) int64 {
	if !r.plan.IsBucket() {
		return 0
	}
	return r.plan.UnitsIn(r.time(now) - r.join.oldestStart)
}

// alreadyCounted returns how many of the units that a peer consumed since the given time are part of an adopted level.
// If the limit has windows, only a level that was adopted in the open window counts.
func (r *record) alreadyCounted(units, since int64, now moment) int64 {
	if since >= r.join.adoptedAt || r.join.totalsVoid || r.plan.HasWindows() && r.join.adoptedAt < r.window.start {
		return 0
	}
	inTotals := r.total + r.peersConsumed() + r.window.units().carried // carried units are in no total
	return max(0, min(units, r.level(now)-inTotals))
}

// peersConsumed returns the sum of the peers' totals, without those of past windows.
func (r *record) peersConsumed() (units int64) {
	for i := range r.peers {
		if peer := &r.peers[i]; !peer.pastWindow() {
			units += min(peer.total, headgate.MaxCount)
		}
	}
	return units
}

// adoptLevel raises the level to the peer's level plus the units of this node that the peer cannot know.
func (l *Ledger) adoptLevel(r *record, u *update, now moment) {
	t := u.Tally
	level := r.level(now)
	sum := r.peersConsumed() + min(t.Total, headgate.MaxCount) // of all peers, including the sender of t
	if r.carries() {
		sum += max(r.window.units().carried, min(t.Carried, r.maxPending())) // levels include carried units, totals do not
	}
	drained := r.drainedSinceOldest(now)
	unknown := l.unknownToPeer(r, u, now)
	if drained == 0 && !r.join.totalsVoid {
		unknown = r.total - max(0, min(r.knownUnits(t), t.Level-sum))
	}
	unknown = min(unknown, level)
	increase := t.Level + unknown - level
	if r.plan.IsBucket() {
		// While the tally was in transit, the peer's level has drained. Units that drained on this node in that time must
		// not be subtracted twice.
		inTransit := t.MaxAge.Microseconds()
		if unknown > 0 {
			inTransit = min(inTransit, max(0, inTransit-(now.uptime-r.addedAt).Microseconds()+r.emptyTime))
		}
		increase -= r.plan.DrainedOf(t.Level, inTransit)
	}
	if !r.join.totalsVoid && t.Level+drained >= t.Total { // otherwise the key was reset, or many units were given back
		increase = max(increase, r.total+sum-drained-level)
	}
	l.chargePeers(r, increase, r.window.start, now)
}

// knownUnits returns how many of this node's units a peer may know.
func (r *record) knownUnits(t *tally.Tally) int64 {
	if t.HasKnownUnits {
		return min(t.KnownUnits, r.sent.highest)
	}
	return r.sent.highest
}

// unknownToPeer returns how many of this node's units are not in the level of a peer's tally. If the peer wrote the
// tally before this node first sent its total, these are all units; otherwise they are the units that were not sent.
func (l *Ledger) unknownToPeer(r *record, u *update, now moment) int64 {
	age := u.MaxAge
	if age == 0 {
		age = u.lag
	}
	if l.pulls {
		age += l.options.Lag / 16 // the level of a peer that pulls includes only units from its previous exchange
	}
	if r.sent.firstAt == 0 || r.time(now)-age.Microseconds() <= r.sent.firstAt {
		return r.total
	}
	return r.total - r.knownUnits(u.Tally)
}
