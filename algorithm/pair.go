package algorithm

import "github.com/headgate/headgate"

// A Pair is the state of an algorithm that needs but two words: a time and what was consumed. The zero Pair is that of a
// key never seen. A store that has room for a Pair of its own may pass it to the methods that end in Pair instead of
// passing a State to the others; the answers are the same.
type Pair struct {
	Time  int64 // µs
	Units int64
}

// IsPair tells whether the plan's state is a Pair.
func (p *Plan) IsPair() bool { return p.kind == KindBucket || p.kind == KindWindow }

// DecidePair is Decide for a Pair.
func (p *Plan) DecidePair(s Pair, now, n int64) headgate.Decision {
	if p.kind == KindWindow {
		return p.decideWindow(s, now, n)
	}
	return p.decideBucket(s, now, n)
}

// TakePair returns the Pair after taking n units, which are at least 1 and at most the capacity, and whether they were
// taken.
func (p *Plan) TakePair(s Pair, now, n int64) (Pair, bool) {
	if p.kind == KindBucket && s.Units > 0 && p.keeps(now-s.Time) {
		// Of a bucket from which nothing has drained, levels and times tell the same.
		if s.Units+n > p.capacity {
			return s, false
		}
		s.Units += n
		return s, true
	}
	switch p.limit.Algorithm {
	case headgate.FixedWindow:
		return p.takeWindow(s, now, n)
	case headgate.GCRA:
		return p.schedule(s, now, n)
	default:
		return p.takeBucket(s, now, n)
	}
}

// DescribeTaken returns the decision about n units that TakePair has taken at now and that left the Pair s.
func (p *Plan) DescribeTaken(s Pair, now, n int64) (d headgate.Decision) {
	p.Describe(&d, s, now, n)
	return d
}

// Describe is DescribeTaken into a decision, whatever was there: copies of it take longer than making it.
func (p *Plan) Describe(d *headgate.Decision, s Pair, now, n int64) {
	*d = headgate.Decision{}
	if p.kind == KindWindow {
		p.describeTakenFromWindow(d, s, now, n)
	} else {
		p.describeTakenFromBucket(d, s, now, n)
	}
}

// ChargePair is Charge for a Pair.
func (p *Plan) ChargePair(s Pair, now, n int64) (Pair, headgate.Decision) {
	if p.kind == KindWindow {
		return p.chargeWindow(s, now, n)
	}
	return p.chargeBucket(s, now, n)
}

// GivePair is Give for a Pair.
func (p *Plan) GivePair(s Pair, now, n int64, r headgate.Receipt) Pair {
	if p.kind == KindWindow {
		return p.giveWindow(s, now, n, r.At)
	}
	return p.giveBucket(s, now, n, r.At)
}

// pairSteps are the steps of the algorithms whose state is a Pair.
type pairSteps struct{}

func pairOf(s State) Pair {
	if len(s) == 0 {
		return Pair{}
	}
	return Pair{Time: s[0], Units: s[1]}
}

func (b Pair) into(s State) State { return append(s[:0], b.Time, b.Units) }

func (pairSteps) decide(p *Plan, s State, now, n int64) headgate.Decision {
	return p.DecidePair(pairOf(s), now, n)
}

func (pairSteps) take(p *Plan, s State, now, n int64, _ uint64) (State, headgate.Decision) {
	pair, ok := p.TakePair(pairOf(s), now, n)
	if !ok {
		return s, p.DecidePair(pair, now, n)
	}
	return pair.into(s), p.DescribeTaken(pair, now, n)
}

func (pairSteps) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	pair, d := p.ChargePair(pairOf(s), now, n)
	return pair.into(s), d
}

func (pairSteps) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	return p.GivePair(pairOf(s), now, n, r).into(s)
}
