package ledger

import (
	"github.com/headgate/headgate"
)

// Nodes that have received the same updates have the same level, except for updates in transit. A node that is lower
// than a peer for some time has missed something: it evicted the key, or received an update before it knew the key's
// age. This does not repair itself: the lower node admits more, and its peers get even lower. So a node that is below a
// peer in all updates for a while catches up. A node that is above a peer sends its level, as it may have denied for so
// long that it has nothing else to send.
//
// Updates in transit do not cause this. A tally has its sender's total and level, and units that the sender knows of
// third nodes reach this node about as soon. Nor do late tallies: units that have drained since the tally was sent are
// subtracted, and never too few.

// minComparisons is the number of updates from a peer that are needed within the time that updates may be late.
const minComparisons = 4

// catchUp raises a record to the level of a peer that was above it for some time, or queues its level for a peer below.
func (l *Ledger) catchUp(sh *shard, r *record, u *update, now moment) {
	peer, late := u.peer, u.lag+l.options.Lag/4
	if u.Age > 0 {
		late = u.Age
	}
	theirs := min(u.Level-r.plan.UnitsIn(late.Microseconds()+1, u.Level), (1+headgate.MaxDebt)*r.plan.Capacity())
	above := theirs - r.level(now) - 1 // rounding may differ by one
	at := r.at(now)
	if peer.compared == 0 {
		peer.above.least, peer.above.most, peer.above.since = above, above, at
	}
	peer.above.least, peer.above.most = min(peer.above.least, above), max(peer.above.most, above)
	peer.compared++
	if at-peer.above.since < l.options.Lag.Microseconds() || peer.compared < minComparisons {
		return
	}
	peer.compared = 0
	if peer.above.least > 0 {
		l.counters.levelled.Add(peer.above.least)
		l.chargePeers(r, peer.above.least, r.window.start, now)
		r.join.at = at
		for i := range r.peers {
			r.peers[i].compared = 0 // they were compared with a lower level
		}
	}
	if peer.above.most < -2 {
		r.status.sendLevel = true
		l.queueChange(sh, r)
	}
}
