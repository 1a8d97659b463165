package algorithm

import "github.com/headgate/headgate"

// When the limit of a key changes, its consumption stays: see docs/algorithms.md, "Changing a limit". The old state is
// reduced to the time of the latest decision and the whole units that counted as consumed then. The new state is that
// of a key that took all these units at that time.

// The head, a state's first word, holds its kind and one number of the limit that the other words depend on: the units
// of a bucket's rate, a window's period, or the width of a sub-bucket.
const (
	headKind      = 56 // shift of the kind plus 1
	headStaggered = 1 << 55
	headNumber    = headStaggered - 1
)

// headOf computes the head of the plan's states.
func (p *Plan) headOf() int64 {
	head := int64(p.kind+1) << headKind
	switch p.kind {
	case KindBucket:
		return head | p.rate.units
	case KindBuckets:
		return head | p.width
	case KindCounters, KindCustom:
		return head | int64(p.limit.Algorithm)<<countersAlgorithm | p.period
	case KindWindow:
		if p.limit.Staggered {
			head |= headStaggered
		}
	}
	return head | p.period
}

// kind returns the kind of a state that has a head, and KindLeases for the empty state.
func (s State) kind() Kind {
	if len(s) == 0 {
		return KindLeases
	}
	return Kind(s[headWord]>>headKind) - 1
}

// Owns reports whether the plan's steps can use a state without converting it: the state is empty, or its limit differs
// from the plan's only in settings that states do not depend on: the capacity, the TTL of concurrency, and which of the
// three bucket algorithms it has.
func (p *Plan) Owns(s State) bool {
	if len(s) == 0 || p.kind == KindLeases {
		return true
	}
	if s[headWord] != p.head {
		return false
	}
	switch p.kind {
	case KindBucket:
		return s[bucketPeriod] == p.rate.micros
	case KindBuckets:
		return int64(len(s)-ringCounts) == p.buckets
	default:
		return true
	}
}

// A Shape holds the settings that the words of a plan's states depend on. Plans of one Shape own each other's states.
type Shape struct{ head, micros, buckets int64 }

// Shape returns the shape of the plan's states.
func (p *Plan) Shape() Shape {
	s := Shape{head: p.head, buckets: p.buckets}
	if p.kind == KindBucket {
		s.micros = p.rate.micros
	}
	return s
}

// Hash returns a hash of the shape.
func (s Shape) Hash() uint64 {
	h := uint64(s.head)*0x9E3779B97F4A7C15 ^ uint64(s.micros)*0xC2B2AE3D27D4EB4F ^ uint64(s.buckets)<<48
	return (h ^ h>>32) * 0x9E3779B97F4A7C15
}

// Offset returns the key's clock offset under the limit that wrote the state. See [Plan.Offset].
func (s State) Offset(key string) int64 {
	if len(s) == 0 || s[headWord]&headStaggered == 0 {
		return 0
	}
	return offsetOf(key, s[headWord]&headNumber)
}

// Carry converts the state of a key whose limit has changed to a state of the plan. The new state has taken, at the
// time of the latest decision, all units that counted as consumed then, rounded up. If none of them counts any more at
// now under the old limit, the new state has consumed nothing. A log that becomes one of another period keeps its
// entries.
//
// The old state is not changed. now is by the key's clock under the plan. shift is how far that clock is ahead of the
// clock of the old state: s.Offset(key) − p.Offset(key). A state that the plan owns is returned as it is.
//
// A store carries a state over at the first take, charge or refund under the new limit, and stores the new state even
// if that step denies.
func (p *Plan) Carry(s State, shift, now int64) State {
	if p.Owns(s) {
		return s
	}
	at, units := s.Consumed(now - shift)
	if s.kind() == KindLog && p.kind == KindLog && units > 0 {
		first, _ := s.liveEntries(at - s[headWord]&headNumber)
		return append(State{p.head, units, at, logEntries}, s[first:]...)
	}
	return p.NewState(at+shift, units)
}

// NewState returns the state of a key that consumed units (0 or more) at one time and nothing before.
func (p *Plan) NewState(at, units int64) State { return p.steps.newState(p, at, units) }

// newPair is NewState for the Pair of a bucket or a window.
func newPair(at, units int64) Pair {
	return Pair{Time: at, Units: units, Last: at}
}

// CarryPair is Carry for a Pair that was written under the plan from. Both plans have Pairs.
func (p *Plan) CarryPair(from *Plan, pair Pair, shift, now int64) Pair {
	if p.Shape() == from.Shape() {
		return pair
	}
	at, units := from.ConsumedPair(pair, now-shift)
	return newPair(at+shift, units)
}

// Consumed returns the time of the latest decision that changed the state, and the units that counted as consumed then.
// If none of them counts any more at now, it returns now and 0. Times are by the clock of the state.
func (s State) Consumed(now int64) (at, units int64) {
	switch s.kind() {
	case KindLeases:
		return now, 0
	case KindCustom:
		return s.consumedCustom(now)
	}
	p := s.plan()
	return p.steps.consumed(&p, s, now)
}

// GiveBack gives back n units that were taken with r under the plan takenUnder. The limit of the key may have changed
// since; a refund does not change it back, but credits the units by the limit that the state was written under. If
// both limits have a bucket, the limit that drains faster bounds the credit. Times are by the clock of the state.
func (s State) GiveBack(takenUnder *Plan, now, n int64, r headgate.Receipt) State {
	if kind := s.kind(); kind == KindLeases || kind == KindCustom {
		return s // the limit of a Custom algorithm is not in its state, and adding nothing is safe
	}
	p := s.plan()
	if p.IsPair() {
		return p.StateOf(p.GivePair(takenUnder, PairOf(s), now, n, r), s)
	}
	return p.steps.give(&p, s, now, n, r)
}

// plan restores the plan that a state was written under, without its capacity. The state must have a head.
func (s State) plan() Plan {
	head := s[headWord]
	p := Plan{kind: s.kind(), head: head, period: head & headNumber} // restore sets the period if this is another number
	p.limit.Algorithm = firstOfKind[p.kind]
	if p.kind == KindCounters {
		p.limit.Algorithm = countersAlgorithmOf(head)
	}
	p.steps = all[p.limit.Algorithm]
	p.steps.restore(&p, s)
	return p
}

// firstOfKind is the first algorithm of each kind.
var firstOfKind = func() (first [Kinds]headgate.Algorithm) {
	for a := len(kinds) - 1; a >= 0; a-- {
		first[kinds[a]] = headgate.Algorithm(a)
	}
	return first
}()

// ConsumedPair is Consumed for a Pair of the plan.
func (p *Plan) ConsumedPair(pair Pair, now int64) (at, units int64) {
	if p.kind == KindWindow {
		later, _ := p.advanceWindow(pair, now)
		return consumed(pair.Last, now, pair.Units, later.Units)
	}
	then, drained := pair.slide(p.rate, pair.Last)
	later, _ := pair.slide(p.rate, now)
	return consumed(pair.Last, now, then.Units-drained, later.Units)
}

// consumed returns the result of Consumed for units that were consumed at the time at, of which left still count at
// now.
func consumed(at, now, units, left int64) (int64, int64) {
	if left == 0 {
		return max(at, now), 0
	}
	return at, units
}
