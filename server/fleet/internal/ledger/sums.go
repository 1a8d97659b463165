package ledger

import (
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// Nodes that count the same units agree on the level of a bucket, even if they missed some updates.
//
// Let G be the units that all nodes consumed, and F the units that have drained. The level is G − F. If a node receives
// updates late, its G is too small for a while, and its bucket may be empty and drain nothing. So its F may be too
// small, but never too large: of two nodes, the node with the larger F is right. A tally has the sum of all units that
// its sender counts (G) and the level. The receiver computes the sender's F from them, and uses the larger F.
//
// Sums can be compared only if they are sums of the same totals. So a tally also has a digest of these totals. Totals
// that have not grown for RecentFor are omitted on all nodes. So nodes that joined later, or that dropped empty
// records, have the same sums.
//
// A peer cannot lower a level arbitrarily: F can grow only by the units that would have drained while this node's
// bucket was empty, plus roundedUnits.
//
// Levels include units that were consumed under a limit of another kind, but sums do not. So levels are not compared
// until such units have drained.

// roundedUnits is the difference between levels that rounding can cause.
const roundedUnits = 2

// RecentFor is the time for which a total counts in sums and digests after its node has sent an increase.
const RecentFor = 5 * time.Second

// digestOf returns a short hash that identifies a total of a peer.
func digestOf(peer uint64, start time.Duration) uint16 {
	x := (peer ^ uint64(start/time.Microsecond)) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return uint16(x >> 48)
}

// sumAndDigest returns the sum of the recent totals of this node and its peers, and a digest that identifies them.
func (l *Ledger) sumAndDigest(r *record, now moment) (sum int64, digest uint16) {
	since := r.time(now) - RecentFor.Microseconds()
	if r.isRecent(now) {
		if r.status.hasRefund {
			r.useRefund(0, r.time(now))
		}
		sum, digest = r.total-r.sent.refunded, digestOf(l.self, r.sent.start)
	}
	ids := l.peers.IDs()
	for i := range r.peers {
		peer := &r.peers[i]
		if peer.total == 0 || peer.grewAt < since {
			continue
		}
		if id := &ids[peer.slot]; id.Gen == peer.gen && id.Hash != 0 {
			sum += peer.total
			digest ^= digestOf(id.Hash, peer.start)
		}
	}
	if l.pulls { // notes do not contain the limit, so the digest must depend on it
		digest ^= digestOf(uint64(r.plan.Limit.Count)<<20^uint64(r.plan.Capacity()), r.plan.Limit.Period)
	}
	return sum, digest
}

// isRecent reports whether the units that this node consumed count in sums and digests.
func (r *record) isRecent(now moment) bool {
	if r.total == 0 || r.total != r.sent.highest {
		return r.total > 0
	}
	return stampOf(r.time(now))-r.join.grewAt <= stampOf(RecentFor.Microseconds())
}

// A stamp is a time in units of 2^17 µs, modulo 2.4 hours. A total that has not grown for 2.4 hours looks recent for
// some seconds. Then digests differ, and levels are not compared.
type stamp uint16

func stampOf(micros int64) stamp { return stamp(micros >> 17) }

// addSum adds to a tally the fields that peers compare.
func (l *Ledger) addSum(t *tally.Tally, r *record, now moment) {
	if !r.plan.IsBucket() {
		return
	}
	t.DrainedPart = r.partDrained(t.Level, now)
	t.Sum, t.Digest = l.sumAndDigest(r, now)
	t.SumValid, t.Recent = !r.join.levelGuessed && r.extra.kinds == nil, r.isRecent(now)
}

// applySum charges the units of an update from a peer that counts the same totals. If more units have drained on the
// peer, applySum adopts the peer's number of drained units. It returns false if the peer counts other totals.
func (l *Ledger) applySum(sh *shard, r *record, u *update, units int64, now moment) bool {
	t, peer := u.Tally, u.peer
	if !t.SumValid || !r.plan.IsBucket() || r.extra.kinds != nil || !l.pulls && t.Limit != r.plan.Limit {
		return false
	}
	sum, digest := l.sumAndDigest(r, now)
	if digest != t.Digest {
		return false
	}
	// Express levels as the time that they take to drain, which includes fractions of units.
	peerTime := r.plan.TimeFor(t.Level) - r.plan.PartTime(t.DrainedPart)
	unknown := r.plan.TimeFor(sum-t.Sum) - r.plan.TimeFor(t.Sum-sum) // of units that were consumed since the tally was sent
	leastTime := max(0, peerTime+unknown-t.MaxAge.Microseconds())    // if they were consumed right after that
	peerTime = max(0, max(0, peerTime-t.MinAge.Microseconds())+unknown)
	targetTime := r.timeToEmpty(now) + r.plan.TimeFor(units)
	excess := targetTime - peerTime
	var credit int64
	switch {
	case r.join.levelGuessed && peer.older:
		r.join.levelGuessed, r.join.adoptedAt = false, 0
		credit = max(excess, min(0, targetTime-leastTime))
	case excess > r.plan.TimeFor(roundedUnits):
		credit = min(excess, max(0, r.emptyTime-peer.emptyTimeWhenEqual))
	case excess > 0: // within rounding
		credit = excess
	}
	r.useEmptyTime(min(credit, r.emptyTime))
	if credit == 0 {
		l.chargePeers(r, units, r.window.start, now)
	} else {
		r.setTimeToEmpty(targetTime-credit, now)
	}
	// If the peer was unreachable until now, it may not yet count the units that have drained on this node.
	if excess -= credit; excess <= 0 && u.silence < unreachableAfter {
		peer.emptyTimeWhenEqual = max(peer.emptyTimeWhenEqual, r.emptyTime-u.lag.Microseconds())
		r.join.chargedApart = 0
	}
	if r.plan.DrainedOf(1, -excess) > 0 {
		r.status.sendLevel = true // the peer may have missed an update
		l.queueChange(sh, r)
	}
	return true
}

// While a partition separates two nodes, each drains only the units that its own side consumes. So after the partition,
// neither F is right. Units that have drained on one side then also count as drained on the other side, up to the units
// that could have drained there while its bucket was empty. So if both sides together stayed within the limit, there is
// no debt. If each side used the whole limit, the excess is a debt.

// unreachableAfter is the time without an update after which a peer counts as unreachable.
const unreachableAfter = 500 * time.Millisecond

// drainedSeparately returns how many units of an update have drained before this node received it. Units in the peer's
// level have not drained. All nodes on the peer's side have the same level, so its units are charged only once.
func (r *record) drainedSeparately(u *update) int64 {
	emptyTime := min(r.emptyTime-u.peer.emptyTime, u.silence.Microseconds())
	if emptyTime <= 0 || u.units <= 0 {
		return 0
	}
	inPeerLevel := max(0, u.Level-r.plan.DrainedOf(u.Level, u.MaxAge.Microseconds())-int64(r.join.chargedApart))
	drained := r.plan.DrainedOf(max(0, u.units-inPeerLevel), emptyTime)
	r.join.chargedApart = int32(min(int64(r.join.chargedApart)+u.units-drained, math.MaxInt32))
	r.useEmptyTime(r.plan.TimeFor(drained))
	return drained
}

// useEmptyTime subtracts time from emptyTime, because units have been counted as drained in it.
func (r *record) useEmptyTime(micros int64) {
	if micros <= 0 {
		return
	}
	r.emptyTime -= micros
	for i := range r.peers {
		peer := &r.peers[i]
		peer.emptyTime, peer.emptyTimeWhenEqual = min(peer.emptyTime, r.emptyTime), min(peer.emptyTimeWhenEqual, r.emptyTime)
	}
}

// timeToEmpty returns how long a bucket takes to drain, in µs.
func (r *record) timeToEmpty(now moment) int64 {
	return max(0, r.emptyAt-r.time(now)) + r.plan.TimeFor(r.pending)
}

// setTimeToEmpty sets the level of a bucket so that it drains within the given µs.
func (r *record) setTimeToEmpty(micros int64, now moment) {
	at := r.time(now)
	units := r.plan.UnitsStarted(micros)
	r.usage = quota.Counter{}
	d := r.usage.Charge(r.plan, at-(r.plan.TimeFor(units)-micros), min(units, headgate.MaxCount))
	r.pending, r.debt.window = max(0, units-d.Receipt.Units), r.window.start
	r.emptyAt = at + micros - r.plan.TimeFor(r.pending)
	r.changedAt = at
}

// partDrained returns how much of the last unit of a level has drained, in 64ths.
func (r *record) partDrained(level int64, now moment) uint8 {
	drainedTime := r.plan.TimeFor(level) - r.timeToEmpty(now)
	return uint8(r.plan.DrainedOf(quota.UnitParts-1, quota.UnitParts*drainedTime))
}
