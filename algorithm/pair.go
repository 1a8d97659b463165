package algorithm

import "github.com/headgate/headgate"

// A Pair is the compact state of an algorithm that needs only times and the units consumed. Unlike a State, it does not
// record which limit wrote it. A new key has the zero Pair. A store that knows the limit can use the methods whose
// names contain Pair, which make the same decisions as the methods for a State. [Plan.StateOf] and [PairOf] convert one
// form to the other.
type Pair struct {
	Time  int64 // µs: the time at which a bucket held Units (its anchor), or the latest decision of a window
	Units int64
	// Last is the time, in µs, of the latest decision that changed the Pair. For a window it is Time, for a bucket Time or
	// later. It is needed when the limit changes, and for refunds if the clock has stepped back.
	Last int64
}

// IsPair reports whether the plan's state is a Pair.
func (p *Plan) IsPair() bool { return p.kind == KindBucket || p.kind == KindFixedWindow }

// DecidePair does the same as Decide, for a Pair.
func (p *Plan) DecidePair(s Pair, now, n int64) headgate.Decision {
	if p.kind == KindFixedWindow {
		return p.decideWindow(s, now, n)
	}
	return p.decideBucket(s, now, n)
}

// PeekPair does the same as Peek, for a Pair.
func (p *Plan) PeekPair(s Pair, now, n int64) headgate.Decision {
	return peekDecision(p.DecidePair(s, now, 0), p.DecidePair(s, now, n))
}

// LevelPair returns the number of units in a Pair that count at now: the capacity minus the Remaining that DecidePair
// returns for no units.
func (p *Plan) LevelPair(s Pair, now int64) int64 {
	if p.kind == KindFixedWindow {
		w, _ := p.advanceWindow(s, now)
		return w.Units
	}
	b, drained := s.slide(p.rate, now)
	return b.Units - drained
}

// TakePair returns the Pair after taking n units, which are at least 1 and at most the capacity, and whether they were
// taken. After a denial, the Pair needs to be stored only if its Last differs from that of s: see [Plan.DenyPair].
func (p *Plan) TakePair(s Pair, now, n int64) (Pair, bool) {
	if p.kind == KindBucket && s.Units > 0 && p.drainsNothing(now-s.Time) {
		// gcra compares times, but while nothing has drained, comparing levels gives the same result.
		if s.Units+n > p.capacity {
			if s.Units > p.capacity { // in debt: see denyBucket
				s.Last = max(s.Last, now)
			}
			return s, false
		}
		s.Units += n
		s.Last = max(s.Last, now)
		return s, true
	}
	switch p.limit.Algorithm {
	case headgate.FixedWindow:
		return p.takeWindow(s, now, n)
	case headgate.GCRA:
		return p.takeGCRA(s, now, n)
	default:
		return p.takeBucket(s, now, n)
	}
}

// DenyPair returns the Pair after a take that was denied at now for any reason. Usually, it has the same effect as s,
// which need not be replaced. For a bucket, Last changes in two cases, in which the denial counts as the latest
// decision when the limit changes: the key is in debt, or a whole unit has drained since the latest decision.
func (p *Plan) DenyPair(s Pair, now int64) Pair {
	if p.kind == KindFixedWindow {
		return s
	}
	moved, drained := s.slide(p.rate, now)
	return p.denyBucket(s, moved, drained, now)
}

// DescribeTaken returns the decision about n units that TakePair took at now. s is the Pair that TakePair returned.
func (p *Plan) DescribeTaken(s Pair, now, n int64) (d headgate.Decision) {
	p.Describe(&d, s, now, n)
	return d
}

// Describe does the same as DescribeTaken, but writes the decision to *d, which avoids a copy.
func (p *Plan) Describe(d *headgate.Decision, s Pair, now, n int64) {
	*d = headgate.Decision{}
	if p.kind == KindFixedWindow {
		p.describeTakenFromWindow(d, s, now, n)
	} else {
		p.describeTakenFromBucket(d, s, now, n)
	}
}

// ChargePair does the same as Charge, for a Pair.
func (p *Plan) ChargePair(s Pair, now, n int64) (Pair, headgate.Decision) {
	if p.kind == KindFixedWindow {
		return p.chargeWindow(s, now, n)
	}
	return p.chargeBucket(s, now, n)
}

// GivePair gives back n units to s, a Pair of the plan p: see [State.GiveBack]. r is their receipt, and takenUnder the
// plan under which they were taken.
func (p *Plan) GivePair(takenUnder *Plan, s Pair, now, n int64, r headgate.Receipt) Pair {
	if p.kind == KindFixedWindow {
		return p.giveWindow(s, now, n, r.At)
	}
	return p.giveBucket(s, takenUnder, now, n, r.At)
}

// pairSteps implements steps for the algorithms whose state is a Pair.
type pairSteps struct{ direct }

// The indexes of the words in a bucket's or window's State, and their number.
const (
	headWord = 0 // the kind of the state, and one number of the limit

	bucketPeriod = 1 // rate.micros
	bucketTime   = 2
	bucketUnits  = 3
	bucketLast   = 4
	bucketWords  = 5

	windowTime  = 1
	windowUnits = 2
	windowWords = 3
)

// PairOf returns the Pair in a state of a bucket or a window, and the zero Pair for any other state.
func PairOf(s State) Pair {
	switch s.kind() {
	case KindBucket:
		return Pair{Time: s[bucketTime], Units: s[bucketUnits], Last: s[bucketLast]}
	case KindFixedWindow:
		return Pair{Time: s[windowTime], Units: s[windowUnits], Last: s[windowTime]}
	default:
		return Pair{}
	}
}

// StateOf returns the plan's state with this Pair. It reuses the memory of s, which may be nil.
func (p *Plan) StateOf(pair Pair, s State) State {
	if p.kind == KindFixedWindow {
		return append(s[:0], p.head, pair.Time, pair.Units)
	}
	return append(s[:0], p.head, p.rate.micros, pair.Time, pair.Units, pair.Last)
}

func (pairSteps) decide(p *Plan, s State, now, n int64) headgate.Decision {
	return p.DecidePair(PairOf(s), now, n)
}

func (pairSteps) takeInto(d *headgate.Decision, p *Plan, s State, now, n int64) State {
	before := PairOf(s)
	pair, ok := p.TakePair(before, now, n)
	if !ok {
		*d = p.DecidePair(pair, now, n)
		if pair.Last != before.Last {
			s = p.StateOf(pair, s)
		}
		return s
	}
	p.Describe(d, pair, now, n)
	return p.StateOf(pair, s)
}

func (pairSteps) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	pair, d := p.ChargePair(PairOf(s), now, n)
	return p.StateOf(pair, s), d
}

func (pairSteps) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	return p.StateOf(p.GivePair(p, PairOf(s), now, n, r), s)
}

func (pairSteps) consumed(p *Plan, s State, now int64) (at, units int64) {
	return p.ConsumedPair(PairOf(s), now)
}

func (pairSteps) newState(p *Plan, at, units int64) State { return p.StateOf(newPair(at, units), nil) }
