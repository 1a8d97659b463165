package algorithm

import (
	"time"

	"github.com/headgate/headgate"
)

// counting implements steps for an algorithm whose state is a few numbers. The type parameter C defines how these
// numbers change:
//
//	type firstWindow = counting[firstWindowCounter]
//
// Such an algorithm has no settings except Count, Burst and Period.
type counting[C counter] struct{}

// A counter defines how the counters of a key change and how many units they count. Its methods are pure functions.
// Times are in µs. The caller advances the counters to the time at before it calls any other method with this time.
type counter interface {
	// advance returns the counters at the time to, which is not before from. It drops units that no longer count.
	advance(p *Plan, c counters, from, to int64) counters
	// used returns how many units count at the time at.
	used(p *Plan, c counters, at int64) int64
	// fadeTime returns the first time, not before at, at which at most room units will count if nothing is taken until
	// then. room is less than used(p, c, at).
	fadeTime(p *Plan, c counters, at, room int64) int64
	// add returns the counters after n units were taken at the time at.
	add(p *Plan, c counters, at, n int64) counters
	// remove returns the counters after n units, taken at the time takenAt, were given back at the time at. It ignores
	// units that no longer count.
	remove(p *Plan, c counters, at, n, takenAt int64) counters

	// promise and counts are for tests: see [PromiseOf] and [Counts].
	promise(l headgate.Limit) Promise
	counts(l headgate.Limit, history []Event, at int64) int64
}

// counters are the numbers that are stored for a key. Each is a number of units, or a duration before or after the
// latest decision, from 0 to 2^53-1. None is an absolute time: if a store's clock was ahead, the store later corrects
// the time of the latest decision, but not the counters. A new key has zero counters.
type counters [countersSize]int64

// A state of KindCounters consists of a head, the time of the latest take, charge or refund, and the counters. The
// number in the head holds the algorithm and, in its lowest algorithmShift bits, the period in µs.
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

// decode returns the counters of a state, advanced to the time at: now, or the state's latest time if that is later.
func (counting[C]) decode(p *Plan, s State, now int64) (c counters, at int64) {
	if len(s) == 0 {
		return counters{}, now
	}
	var counter C
	latest := s[countersLatest]
	at = max(now, latest)
	return counter.advance(p, counters(s[countersFirst:]), latest, at), at
}

// encode returns the state with counters at the time at. It reuses the memory of s.
func (counting[C]) encode(p *Plan, s State, c counters, at int64) State {
	return append(append(s[:0], p.head, at), c[:]...)
}

// describe returns the decision about n units at now. c and at are the results of decode.
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
	c, at := a.decode(p, s, now)
	return a.describe(p, c, at, now, n)
}

func (a counting[C]) take(p *Plan, s State, now, n int64, _ uint64) (State, headgate.Decision) {
	c, at := a.decode(p, s, now)
	d := a.describe(p, c, at, now, n)
	if !d.Allowed {
		return s, d
	}
	var counter C
	return a.encode(p, s, counter.add(p, c, at, n), at), d
}

func (a counting[C]) charge(p *Plan, s State, now, n int64) (State, headgate.Decision) {
	var counter C
	c, at := a.decode(p, s, now)
	n = min(n, max(0, p.maxConsumed-counter.used(p, c, at)))
	c = counter.add(p, c, at, n)
	d := a.describe(p, c, at, now, 0)
	d.RetryAfter = 0 // the units were taken, so there is nothing to retry
	d.Receipt = headgate.Receipt{At: at, Units: n}
	return a.encode(p, s, c, at), d
}

func (a counting[C]) give(p *Plan, s State, now, n int64, r headgate.Receipt) State {
	var counter C
	c, at := a.decode(p, s, now)
	return a.encode(p, s, counter.remove(p, c, at, n, r.At), at)
}

func (counting[C]) kind() Kind { return KindCounters }

func (counting[C]) words(*Plan) (initial, growth int) { return countersWords, 0 }

func (counting[C]) prepare(*Plan) {}

// restore removes the algorithm from p.period, in which the caller has stored the whole number of the head.
func (counting[C]) restore(p *Plan, _ State) { p.period &= periodMask }

func (a counting[C]) consumed(p *Plan, s State, now int64) (at, units int64) {
	var counter C
	at = s[countersLatest]
	c, _ := a.decode(p, s, at)
	units = counter.used(p, c, at)
	c, end := a.decode(p, s, now)
	return consumption(at, now, units, counter.used(p, c, end))
}

func (a counting[C]) newState(p *Plan, at, units int64) State {
	var counter C
	return a.encode(p, nil, counter.add(p, counters{}, at, units), at)
}

// luaArgs returns the period and, as b, the number of the algorithm. The script compares b with the state to detect
// that another algorithm wrote it.
func (counting[C]) luaArgs(p *Plan, _ int64, _ uint64) (a, b int64) {
	return p.period, int64(p.limit.Algorithm)
}

func (counting[C]) lua() luaIncludes {
	return luaIncludes{shared: []string{"exact", "store", "counters"}}
}

// counters reads the rest of a state of KindCounters, whose first byte has been read. number takes a size in bytes.
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

// A Promise says how many units an algorithm admits at most under a limit, and how long they count.
type Promise struct {
	// At most Units are admitted in any time shorter than Interval.
	Units    int64
	Interval time.Duration
	// Memory is the longest time for which a unit counts after it was taken.
	Memory time.Duration
}

// An Event is a take, a charge or a refund. At is the time in µs at which the units were taken, even for a refund,
// whose Units are negative.
type Event struct{ At, Units int64 }

// A testable algorithm can compute its own results for tests, independently of its steps.
type testable interface {
	promise(l headgate.Limit) Promise
	counts(l headgate.Limit, history []Event, at int64) int64
}

// PromiseOf returns the Promise of a limit's algorithm, for tests of limiters. ok is false for algorithms whose state
// is not of KindCounters.
func PromiseOf(l headgate.Limit) (promise Promise, ok bool) {
	if a, ok := all[l.Algorithm].(testable); ok {
		return a.promise(l), true
	}
	return Promise{}, false
}

// Counts returns how many units of a history count as consumed at a time in µs. The history is in the order in which
// the events happened. Counts computes the number by the definition of the limit's algorithm, not by its steps, so that
// tests can compare the two. ok is false for algorithms whose state is not of KindCounters.
func Counts(l headgate.Limit, history []Event, at int64) (units int64, ok bool) {
	if a, ok := all[l.Algorithm].(testable); ok {
		return a.counts(l, history, at), true
	}
	return 0, false
}
