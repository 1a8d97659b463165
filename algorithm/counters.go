package algorithm

import (
	"time"

	"github.com/headgate/headgate"
)

// counting implements steps for an algorithm whose state is a few numbers. C is the type that defines how they change:
//
//	type firstWindow = counting[firstWindowCounter]
//
// Such an algorithm has no settings except Count, Burst and Period.
type counting[C counter] struct{}

// A counter defines how the units of a key count. Times are in µs and never go back: the arguments to and at are not
// before the latest time to which the numbers were advanced. All methods are pure functions.
type counter interface {
	// advance moves the numbers from one time to another, and drops units that no longer count.
	advance(p *Plan, c counters, from, to int64) counters
	// used returns how many units count at the time at, to which the numbers were advanced.
	used(p *Plan, c counters, at int64) int64
	// fadeTime returns the first time, not before at, at which at most room units will count if nothing is taken until
	// then. room is less than used(p, c, at).
	fadeTime(p *Plan, c counters, at, room int64) int64
	// add takes n units at the time at, to which the numbers were advanced.
	add(p *Plan, c counters, at, n int64) counters
	// remove gives back, at the time at, n units that were taken at the time taken. It ignores units that no longer count.
	remove(p *Plan, c counters, at, n, taken int64) counters

	// promise and counts are for tests: see [PromiseOf] and [Counts].
	promise(l headgate.Limit) Promise
	counts(l headgate.Limit, history []Event, at int64) int64
}

// counters are the numbers that a counter keeps for a key. Each number is a count of units, or a duration relative to
// the latest decision, from 0 to 2^53-1. It is never an absolute time, because a store that corrects a clock that was
// ahead changes only the time of the latest decision. A new key has zero counters.
type counters [countersSize]int64

// A state is a head, the time of the latest take, charge or refund, and the counters. The number in the head is the
// algorithm and, in the bits below algorithmShift, the period in µs.
const (
	countersSize = 4

	countersLatest = 1
	countersFirst  = 2
	countersWords  = countersFirst + countersSize

	algorithmShift = 46
	periodMask     = 1<<algorithmShift - 1
)

// countersAlgorithmOf returns the algorithm that the head of a state of KindCounters names.
func countersAlgorithmOf(head int64) headgate.Algorithm {
	return headgate.Algorithm(head & numberMask >> algorithmShift)
}

// advanced returns the counters of a state, advanced to now or to the state's latest time if that is later. It also
// returns the time to which it advanced them.
func (counting[C]) advanced(p *Plan, s State, now int64) (counters, int64) {
	if len(s) == 0 {
		return counters{}, now
	}
	var counter C
	latest := s[countersLatest]
	at := max(now, latest)
	return counter.advance(p, counters(s[countersFirst:]), latest, at), at
}

func (counting[C]) state(p *Plan, s State, c counters, at int64) State {
	return append(append(s[:0], p.head, at), c[:]...)
}

// describe returns the decision at now about n units. c are the counters at the time at, which is now or later.
func (counting[C]) describe(p *Plan, c counters, at, now, n int64) headgate.Decision {
	var counter C
	used := counter.used(p, c, at)
	d := headgate.Decision{Allowed: used+n <= p.capacity, Limit: p.capacity}
	switch {
	case !d.Allowed:
		d.RetryAfter = micros(counter.fadeTime(p, c, at, p.capacity-n) - now)
	case n > 0:
		d.Receipt = headgate.Receipt{At: at, Units: n}
		c = counter.add(p, c, at, n)
		used = counter.used(p, c, at)
	}
	d.Remaining = p.capacity - used
	if used > 0 {
		d.ResetAfter = micros(counter.fadeTime(p, c, at, 0) - now)
	}
	return d
}

func (a counting[C]) decide(p *Plan, s State, now, n int64) headgate.Decision {
	c, at := a.advanced(p, s, now)
	return a.describe(p, c, at, now, n)
}

func (a counting[C]) take(p *Plan, s State, now, n int64, _ uint64) (State, headgate.Decision) {
	c, at := a.advanced(p, s, now)
	d := a.describe(p, c, at, now, n)
	if !d.Allowed {
		return s, d
	}
	var counter C
	return a.state(p, s, counter.add(p, c, at, n), at), d
}

func (a counting[C]) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	var counter C
	c, at := a.advanced(p, s, now)
	n = min(n, max(0, p.maxConsumed-counter.used(p, c, at)))
	c = counter.add(p, c, at, n)
	d := a.describe(p, c, at, now, 0)
	d.RetryAfter = 0 // the units were taken, so there is nothing to retry
	d.Receipt = headgate.Receipt{At: at, Units: n}
	return a.state(p, s, c, at), d
}

func (a counting[C]) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	var counter C
	c, at := a.advanced(p, s, now)
	return a.state(p, s, counter.remove(p, c, at, n, r.At), at)
}

func (counting[C]) kind() Kind { return KindCounters }

func (counting[C]) words(*Plan) (initial, growth int) { return countersWords, 0 }

func (counting[C]) prepare(*Plan) {}

// restore removes the algorithm from the number of the head, which Plan.period has so far.
func (counting[C]) restore(p *Plan, _ State) { p.period &= periodMask }

func (a counting[C]) consumed(p *Plan, s State, now int64) (at, units int64) {
	var counter C
	at = s[countersLatest]
	c, _ := a.advanced(p, s, at)
	units = counter.used(p, c, at)
	c, end := a.advanced(p, s, now)
	return consumption(at, now, units, counter.used(p, c, end))
}

func (a counting[C]) newState(p *Plan, at, units int64) State {
	var counter C
	return a.state(p, nil, counter.add(p, counters{}, at, units), at)
}

// luaArgs returns the period and, as b, the algorithm's number, by which the script recognizes states of other
// algorithms.
func (counting[C]) luaArgs(p *Plan, _ int64, _ uint64) (a, b int64) {
	return p.period, int64(p.limit.Algorithm)
}

func (counting[C]) lua() luaIncludes {
	return luaIncludes{shared: []string{"exact", "store", "counters"}}
}

// counters reads a state of KindCounters after its first byte. The arguments of number are sizes in bytes.
func (r *luaReader) counters(s State) State {
	a := r.number(1)
	if a >= int64(len(kinds)) || kinds[a] != KindCounters {
		r.failed = true
		return s
	}
	s = append(s, headFor(KindCounters, a<<algorithmShift|r.number(6)&periodMask), r.time())
	for range countersSize {
		s = append(s, r.number(7))
	}
	return s
}

func (counting[C]) promise(l headgate.Limit) Promise {
	var counter C
	return counter.promise(l)
}

func (counting[C]) counts(l headgate.Limit, history []Event, at int64) int64 {
	var counter C
	return counter.counts(l, history, at)
}

// A Promise bounds the units that an algorithm admits under a limit.
type Promise struct {
	// Units is the largest number of units that are admitted in any time shorter than Interval.
	Units    int64
	Interval time.Duration
	// Memory is the longest time for which a unit counts after it was taken.
	Memory time.Duration
}

// An Event is a take, a charge or a refund. At is the time in µs at which the units were taken, even for a refund,
// whose Units are negative.
type Event struct{ At, Units int64 }

// A declaration is an algorithm that states the results that tests expect of it.
type declaration interface {
	promise(l headgate.Limit) Promise
	counts(l headgate.Limit, history []Event, at int64) int64
}

// PromiseOf returns the Promise of a limit's algorithm, for tests of limiters. ok is false for algorithms whose state
// is not of KindCounters.
func PromiseOf(l headgate.Limit) (promise Promise, ok bool) {
	if a, ok := all[l.Algorithm].(declaration); ok {
		return a.promise(l), true
	}
	return Promise{}, false
}

// Counts returns how many units of a history, in order of its events, count as consumed at a time in µs. It follows the
// definition of the limit's algorithm, not its steps, so that tests can compare the two. ok is false for algorithms
// whose state is not of KindCounters.
func Counts(l headgate.Limit, history []Event, at int64) (units int64, ok bool) {
	if a, ok := all[l.Algorithm].(declaration); ok {
		return a.counts(l, history, at), true
	}
	return 0, false
}
