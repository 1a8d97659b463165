package algorithm

import "github.com/headgate/headgate"

// When the limit of a key changes, the key keeps its consumption. Convert computes from the old state the time of the
// latest decision and the units that counted as consumed then. In the new state, all these units were taken at that
// time. docs/algorithms.md explains this under "Changing a limit".

// The head is the first word of a state. Its highest bits are the state's kind plus 1. Its lowest bits are a setting of
// the limit on which the other words depend: the units of a bucket's rate, the period of a window, or the width of a
// sub-bucket. The bit between them is set for a staggered fixed-window.
const (
	kindShift    = 56
	staggeredBit = 1 << 55
	numberMask   = staggeredBit - 1
)

// newHead computes the head of the plan's states.
func (p *Plan) newHead() int64 {
	head := int64(p.kind+1) << kindShift
	switch p.kind {
	case KindBucket:
		return head | p.rate.units
	case KindSlidingBuckets:
		return head | p.width
	case KindCounters, KindCustom:
		return head | int64(p.limit.Algorithm)<<algorithmShift | p.period
	case KindFixedWindow:
		if p.limit.Staggered {
			head |= staggeredBit
		}
	}
	return head | p.period
}

// kind returns the kind of a state with a head, and KindLeases for the empty state. It must not be called for a state
// with leases, which has no head.
func (s State) kind() Kind {
	if len(s) == 0 {
		return KindLeases
	}
	return Kind(s[headWord]>>kindShift) - 1
}

// Owns reports whether the plan's steps can use a state without converting it. They can use an empty state, and the
// state of a limit that differs from the plan's only in settings that do not affect states. These settings are the
// capacity, the TTL of concurrency, and which of the three bucket algorithms counts.
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
	case KindSlidingBuckets:
		return int64(len(s)-ringCounts) == p.buckets
	default:
		return true
	}
}

// A StateFormat holds the settings of a plan that determine the words of its states. If the formats of two plans are
// equal, each plan owns the states of the other; see [Plan.Owns].
type StateFormat struct{ head, micros, buckets int64 }

// StateFormat returns the format of the plan's states.
func (p *Plan) StateFormat() StateFormat {
	s := StateFormat{head: p.head, buckets: p.buckets}
	if p.kind == KindBucket {
		s.micros = p.rate.micros
	}
	return s
}

// Hash returns a hash of the format. It multiplies by odd constants to spread small numbers over 64 bits.
func (s StateFormat) Hash() uint64 {
	h := uint64(s.head)*0x9E3779B97F4A7C15 ^ uint64(s.micros)*0xC2B2AE3D27D4EB4F ^ uint64(s.buckets)<<48
	return (h ^ h>>32) * 0x9E3779B97F4A7C15
}

// Offset returns the key's clock offset under the limit that wrote the state. See [Plan.Offset].
func (s State) Offset(key string) int64 {
	if len(s) == 0 || s[headWord]&staggeredBit == 0 {
		return 0
	}
	return offsetOf(key, s[headWord]&numberMask)
}

// Convert converts the state of a key whose limit has changed to a state of the plan. In the new state, all units that
// counted as consumed at the latest decision, rounded up, were taken at the time of that decision. If none of them
// still counts at now under the old limit, nothing is consumed in the new state. A log that is converted to a log with
// another period keeps its entries.
//
// Convert does not change the old state. If the plan owns it, Convert returns it. now is the time by the key's clock
// under the plan. shift is how far that clock is ahead of the clock of the old state: s.Offset(key) − p.Offset(key).
//
// A store calls Convert at the first take or charge under the new limit. It stores the new state even if the take is
// denied.
func (p *Plan) Convert(s State, shift, now int64) State {
	if p.Owns(s) {
		return s
	}
	at, units := s.Consumed(now - shift)
	if s.kind() == KindSlidingLog && p.kind == KindSlidingLog && units > 0 {
		first, _ := s.liveEntries(at - s[headWord]&numberMask)
		return append(State{p.head, units, at, logEntries}, s[first:]...)
	}
	return p.NewState(at+shift, units)
}

// NewState returns the state of a key that consumed units (0 or more) at the time at, and nothing before.
func (p *Plan) NewState(at, units int64) State { return p.steps.newState(p, at, units) }

// newPair is NewState for the Pair of a bucket or a window.
func newPair(at, units int64) Pair {
	return Pair{Time: at, Units: units, Last: at}
}

// ConvertPair is Convert for a Pair that was written under the plan from. IsPair must be true for both plans.
func (p *Plan) ConvertPair(from *Plan, pair Pair, shift, now int64) Pair {
	if p.StateFormat() == from.StateFormat() {
		return pair
	}
	at, units := from.ConsumedPair(pair, now-shift)
	return newPair(at+shift, units)
}

// Consumed returns the time of the latest decision that changed the state, and the units that counted as consumed then.
// If none of these units still counts at now, it returns now and 0. Times are by the clock of the state.
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
// since. GiveBack does not convert the state: it uses the limit under which the state was written. If both limits are
// buckets, it assumes that the units drained at the faster of the two rates. Times are by the clock of the state.
func (s State) GiveBack(takenUnder *Plan, now, n int64, r headgate.Receipt) State {
	if kind := s.kind(); kind == KindLeases || kind == KindCustom {
		return s // the state of a Custom algorithm does not contain the limit; to give nothing back is safe
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
	p := Plan{kind: s.kind(), head: head, period: head & numberMask} // restore corrects a number that is not a period
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

// ConsumedPair does the same as Consumed, for a Pair of the plan.
func (p *Plan) ConsumedPair(pair Pair, now int64) (at, units int64) {
	if p.kind == KindFixedWindow {
		advanced, _ := p.advanceWindow(pair, now)
		return consumption(pair.Last, now, pair.Units, advanced.Units)
	}
	bucket, drained := pair.slide(p.rate, pair.Last)
	units = bucket.Units - drained
	bucket, _ = pair.slide(p.rate, now) // bucket.Units is 0 if all units have drained
	return consumption(pair.Last, now, units, bucket.Units)
}

// consumption returns the result of Consumed. units is the number of units that counted at the latest decision, whose
// time is at; unitsNow is the number of units that count at now.
func consumption(at, now, units, unitsNow int64) (int64, int64) {
	if unitsNow == 0 {
		return max(at, now), 0
	}
	return at, units
}
