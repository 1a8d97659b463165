package ledger

import (
	"hash/fnv"
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// Peers that count the same units agree on the level of a bucket, whatever each of them missed in between.
//
// Of G units consumed by all nodes, F have drained: the level is G − F. A node that hears of units late has a smaller G for a
// while. Its bucket may be empty meanwhile and drain nothing, so its F is never larger than it should be: of two nodes, the
// one with the larger F is right. So a tally carries the sum of all units that its sender counts, beside the level. The
// difference is the sender's F, and the receiver takes the larger of the two.
//
// Sums are comparable only if they are of the same records: a tally also carries a digest of those. Records that have not grown
// for recentFor are left out on all nodes, so that nodes that joined later, or dropped what was empty, have the same.
//
// A peer cannot lower a level at will: F can have grown by no more than what would have drained while the bucket was empty, and
// roundedUnits.

// roundedUnits is by how many units levels may differ because units were rounded.
const roundedUnits = 2

// RecentFor is for how long after a node told that its record grew that counts in sums and digests.
const RecentFor = 5 * time.Second

// digestOf returns a number that stands for a peer, or for a record of it.
func digestOf(peer uint64, start time.Duration) uint16 {
	x := (peer ^ uint64(start/time.Microsecond)) * 0x9e3779b97f4a7c15
	x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
	return uint16(x >> 48)
}

// peerID returns a number that stands for a peer. It is not 0.
func peerID(p fleet.Peer) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(p.Name)) // does not fail
	return (h.Sum64() ^ p.Incarnation) | 1
}

// CompareSums makes the ledger of this peer send sums and digests, and compare those that it receives.
func (l *Ledger) CompareSums(self fleet.Peer) { l.self = peerID(self) }

// account returns the sum of the units that this node counts in recent records, its own and those of peers, and a digest
// of the records.
func (l *Ledger) account(r *record, now moment) (sum int64, digest uint16) {
	since := r.at(now) - RecentFor.Microseconds()
	if r.recent(now) {
		if r.returned {
			r.makeGood(0, r.at(now))
		}
		sum, digest = r.total-r.back, digestOf(l.self, r.start)
	}
	marks := l.peers.marks()
	for i := range r.seen {
		s := &r.seen[i]
		if s.total == 0 || s.recentAt < since {
			continue
		}
		if mark := &marks[s.peer]; mark.gen == s.gen && mark.id != 0 {
			sum += s.total
			digest ^= digestOf(mark.id, s.start)
		}
	}
	return sum, digest
}

// recent reports whether what this node consumed counts in sums and digests.
func (r *record) recent(now moment) bool {
	return r.total > 0 && (r.total != r.sent || r.at(now)-r.exchanged <= RecentFor.Microseconds())
}

// describeSum adds to a tally what peers compare.
func (l *Ledger) describeSum(t *Tally, r *record, now moment) {
	if l.self == 0 || !r.plan.IsBucket() {
		return
	}
	t.DrainedPart = r.partDrained(t.Level, now)
	t.Sum, t.Digest = l.account(r, now)
	t.SumValid, t.Recent = !r.unsure && !r.replaced(), r.recent(now)
}

// agree charges news from a peer that counts the same records, and takes over how much the peer says has drained if that is
// more. It reports whether the peer does.
func (l *Ledger) agree(sh *shard, r *record, s *seen, t *Tally, news int64, lag time.Duration, now moment) bool {
	if l.self == 0 || !t.SumValid || !r.plan.IsBucket() || t.Limit != r.plan.Limit {
		return false
	}
	sum, digest := l.account(r, now)
	if digest != t.Digest {
		return false
	}
	// Levels are in the time that they take to drain, to the part of a unit.
	level := r.drain(now)
	theirs := max(0, r.plan.TimeFor(t.Level)-r.plan.PartTime(t.DrainedPart)+r.plan.TimeFor(sum-t.Sum)-r.plan.TimeFor(t.Sum-sum))
	target := level + r.plan.TimeFor(news)
	over := target - theirs
	var credit int64
	switch {
	case r.unsure && s.older:
		r.unsure, r.joined = false, 0
		credit = over
	case over > r.plan.TimeFor(roundedUnits):
		credit = min(over, max(0, r.waste-s.level))
	case over > 0: // estimates are of whole units
		credit = over
	}
	r.spend(min(credit, r.waste))
	if credit == 0 {
		l.chargeNews(r, news, r.window, now)
	} else {
		r.setDrain(target-credit, now)
	}
	if over -= credit; over <= 0 {
		s.level = max(s.level, r.waste-lag.Microseconds())
		r.kept = 0
	}
	if r.plan.UnitsIn(-over, 1) > 0 {
		r.speak = true // the peer may have missed something
		l.changed(sh, r)
	}
	return true
}

// While two nodes cannot hear each other, each drains only what its own side consumes: neither F is right when they hear of each
// other again. What one side consumed and drained then counts as drained while the bucket of the other was empty, at most. So two
// sides that stayed within the limit together owe nothing, and two that both used all of it owe what is too much.

// missedFor is how long nothing was heard of a peer when it must have been out of reach.
const missedFor = 500 * time.Millisecond

// missed returns how much of the news of a peer that was not heard for a time has drained meanwhile. What it says is still there
// has not: that is the level of all nodes on its side, and is charged once for all of them.
func (r *record) missed(s *seen, t *Tally, news int64, gap time.Duration) int64 {
	waste := min(r.waste-s.waste, gap.Microseconds())
	if gap < missedFor || waste <= 0 || news <= 0 {
		return 0
	}
	still := max(0, t.Level-int64(r.kept))
	drained := r.plan.UnitsIn(waste, max(0, news-still))
	r.kept = int32(min(int64(r.kept)+news-drained, math.MaxInt32))
	r.spend(r.plan.TimeFor(drained))
	return drained
}

// spend takes time in which the bucket was empty for time in which it drained.
func (r *record) spend(micros int64) {
	if micros <= 0 {
		return
	}
	r.waste -= micros
	for i := range r.seen {
		s := &r.seen[i]
		s.waste, s.level = min(s.waste, r.waste), min(s.level, r.waste)
	}
}

// drain returns how long it takes until a bucket is empty, in µs.
func (r *record) drain(now moment) int64 {
	return max(0, r.emptyAt-r.at(now)) + r.plan.TimeFor(r.owed)
}

// setDrain has a bucket be empty after so many µs.
func (r *record) setDrain(micros int64, now moment) {
	at := r.at(now)
	units := r.plan.UnitsStarted(micros)
	r.here = quota.Counter{}
	d := r.here.Charge(r.plan, at-(r.plan.TimeFor(units)-micros), min(units, headgate.MaxCount))
	r.owed, r.owedOf = max(0, units-d.Receipt.Units), r.window
	r.emptyAt = at + micros - r.plan.TimeFor(r.owed)
	r.changedAt = at
}

// partDrained returns how much of the last unit of a level has drained.
func (r *record) partDrained(level int64, now moment) uint8 {
	rest := r.plan.TimeFor(level) - r.drain(now)
	return uint8(r.plan.UnitsIn(quota.UnitParts*rest, quota.UnitParts-1))
}
