package ledger

// A node's level stays below that of a peer if the node has missed units, for example because it had evicted the key.
// The difference would not disappear, because the node with the lower level admits more. So a node whose level is below
// the peer's in all updates for a while raises it. A node whose level is above the peer's sends its level, because it
// may have denied requests for so long that it has nothing else to send. Updates in transit do not cause a difference
// for long, and units that can have drained since a late update was sent are subtracted from its level.

// minComparisons is the minimum number of updates from a peer, over a time of LedgerOptions.Lag, to raise the level.
const minComparisons = 4

// catchUp raises a record to the level of a peer that was above it for some time. If the peer was below it, catchUp
// queues the record, so that the peer receives its level.
func (l *Ledger) catchUp(sh *shard, r *record, u *update, now moment) {
	peer, delay := u.peer, u.lag+l.options.Lag/4
	if u.MaxAge > 0 {
		delay = u.MaxAge
	}
	peerLevel := min(u.Level-r.plan.DrainedOf(u.Level, delay.Microseconds()+1), r.maxLevel())
	above := peerLevel - r.level(now) - 1 // levels may differ by one unit because of rounding
	at := r.time(now)
	if peer.comparisons == 0 {
		peer.above.lowest, peer.above.highest, peer.above.startedAt = above, above, at
	}
	peer.above.lowest, peer.above.highest = min(peer.above.lowest, above), max(peer.above.highest, above)
	peer.comparisons++
	if at-peer.above.startedAt < l.options.Lag.Microseconds() || peer.comparisons < minComparisons {
		return
	}
	peer.comparisons = 0
	if peer.above.lowest > 0 {
		l.counters.levelled.Add(peer.above.lowest)
		l.chargePeers(r, peer.above.lowest, r.window.start, now)
		r.join.adoptedAt = at
		for i := range r.peers {
			r.peers[i].comparisons = 0 // earlier comparisons used the lower level
		}
	}
	if peer.above.highest < -2 {
		r.status.sendLevel = true
		l.queueChange(sh, r)
	}
}
