package algorithm

import "github.com/headgate/headgate"

// When the limit of a key changes, what it consumed stays: see docs/algorithms.md, "Changing a limit". All that a state says
// comes to one time and one number, the time of the latest decision and what counted as consumed then, in whole units. The
// new state is that of a key that took all of it then.

// The head of a state names its kind and has the number that, with the kind, says how the other words are to be read: the
// units of a bucket's rate, a window's period, the width of a sub-bucket.
const (
	headKind      = 56 // bits to the left of which the kind stands, plus 1
	headStaggered = 1 << 55
	headNumber    = headStaggered - 1
)

// headOf returns the head of the plan's states.
func (p *Plan) headOf() int64 {
	head := int64(p.kind+1) << headKind
	switch p.kind {
	case KindBucket:
		return head | p.rate.units
	case KindBuckets:
		return head | p.width
	case KindCounters:
		return head | int64(p.limit.Algorithm)<<countersAlgorithm | p.period
	case KindWindow:
		if p.limit.Staggered {
			head |= headStaggered
		}
	}
	return head | p.period
}

// kind returns the kind of a state that has a head, and KindLeases of the empty one.
func (s State) kind() Kind {
	if len(s) == 0 {
		return KindLeases
	}
	return Kind(s[headWord]>>headKind) - 1
}

// Owns reports whether the plan can make its steps on a state: it is empty, or was written under a limit that differs from
// the plan's only in what states do not depend on. These are the capacity, the algorithm among those with a bucket, and the
// TTL of concurrency.
func (p *Plan) Owns(s State) bool {
	if len(s) == 0 || p.kind == KindLeases {
		return true
	}
	if s[headWord] != p.head {
		return false
	}
	switch p.kind {
	case KindBucket:
		return s[bucketMicros] == p.rate.micros
	case KindBuckets:
		return int64(len(s)-ringCounts) == p.buckets
	default:
		return true
	}
}

// A Shape is what the words of a plan's states depend on. Plans of one Shape own each other's states.
type Shape struct{ head, micros, buckets int64 }

// Shape returns the shape of the plan's states.
func (p *Plan) Shape() Shape {
	s := Shape{head: p.head, buckets: p.buckets}
	if p.kind == KindBucket {
		s.micros = p.rate.micros
	}
	return s
}

// Hash returns a number that is the same for equal shapes and hardly ever for others.
func (s Shape) Hash() uint64 {
	h := uint64(s.head)*0x9E3779B97F4A7C15 ^ uint64(s.micros)*0xC2B2AE3D27D4EB4F ^ uint64(s.buckets)<<48
	return (h ^ h>>32) * 0x9E3779B97F4A7C15
}

// Offset returns by how much the clock of a key was behind for those who wrote the state. See [Plan.Offset].
func (s State) Offset(key string) int64 {
	if len(s) == 0 || s[headWord]&headStaggered == 0 {
		return 0
	}
	return offsetOf(key, s[headWord]&headNumber)
}

// Carry returns the state of a key whose limit has changed to that of the plan: one that took, at the time of its latest
// decision, all that counted as consumed then, rounded up to whole units. If by now nothing of it counts any more under the
// limit that it was written under, it has consumed nothing. A log that becomes one of another period keeps its entries.
//
// The state is not changed. now is by the key's clock under the plan; shift is by how much that clock is ahead of the one
// that the state was written by: s.Offset(key) − p.Offset(key). A plan that owns the state returns it as it is.
//
// A store carries a state over at the first take, charge or refund under the new limit, and keeps what comes of it even if
// that step denies.
func (p *Plan) Carry(s State, shift, now int64) State {
	if p.Owns(s) {
		return s
	}
	at, units := s.Consumed(now - shift)
	if s.kind() == KindLog && p.kind == KindLog && units > 0 {
		first, _ := s.live(at - s[headWord]&headNumber)
		return append(State{p.head, units, at, logEntries}, s[first:]...)
	}
	return p.Place(at+shift, units)
}

// Place returns the state of a key that has consumed units, which may be none, at a time and nothing before.
func (p *Plan) Place(at, units int64) State { return p.steps.place(p, at, units) }

// placePair returns the Pair of a key that has consumed units at a time and nothing before, of a bucket or a window.
func placePair(at, units int64) Pair {
	return Pair{Time: at, Units: units, Last: at}
}

// CarryPair is Carry for a Pair that was written under a plan, to be one of another: both are of a bucket or a window.
func (p *Plan) CarryPair(from *Plan, pair Pair, shift, now int64) Pair {
	if p.Shape() == from.Shape() {
		return pair
	}
	at, units := from.ConsumedPair(pair, now-shift)
	return placePair(at+shift, units)
}

// Consumed returns when the latest decision was that changed a state, and what counted as consumed then; or now and
// nothing, if by now nothing of it counts. Times are by the clock of the state.
func (s State) Consumed(now int64) (at, units int64) {
	if s.kind() == KindLeases {
		return now, 0
	}
	p := s.plan()
	return p.steps.consumed(&p, s, now)
}

// GiveBack returns n units that were taken with r under the plan own. The limit of the key may have changed since, and a
// refund does not change it back: the units are credited by the limit that the state was written under. If both limits have
// a bucket, no more is credited than by the one that drains faster. Times are by the clock of the state.
func (s State) GiveBack(own *Plan, now, n int64, r headgate.Receipt) State {
	if s.kind() == KindLeases {
		return s
	}
	p := s.plan()
	if p.IsPair() {
		return p.StateOf(p.GivePair(own, PairOf(s), now, n, r), s)
	}
	return p.steps.give(&p, s, now, n, r)
}

// plan returns what there is in a state of the plan that it was written under: all but the capacity. The state must have a
// head.
func (s State) plan() Plan {
	head := s[headWord]
	p := Plan{kind: s.kind(), head: head, period: head & headNumber} // or what else the head has
	p.limit.Algorithm = ofKind[p.kind]
	if p.kind == KindCounters {
		p.limit.Algorithm = countersOf(head)
	}
	p.steps = all[p.limit.Algorithm]
	p.steps.restore(&p, s)
	return p
}

// ofKind are the first algorithms of each kind.
var ofKind = func() (first [Kinds]headgate.Algorithm) {
	for a := len(kinds) - 1; a >= 0; a-- {
		first[kinds[a]] = headgate.Algorithm(a)
	}
	return first
}()

// ConsumedPair is Consumed for a Pair of the plan.
func (p *Plan) ConsumedPair(pair Pair, now int64) (at, units int64) {
	if p.kind == KindWindow {
		later, _ := p.roll(pair, now)
		return consumed(pair.Last, now, pair.Units, later.Units)
	}
	then, drained := pair.slide(p.rate, pair.Last)
	later, _ := pair.slide(p.rate, now)
	return consumed(pair.Last, now, then.Units-drained, later.Units)
}

// consumed returns the units that counted at a time, if some count now.
func consumed(at, now, units, left int64) (int64, int64) {
	if left == 0 {
		return max(at, now), 0
	}
	return at, units
}
