package limittest

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A ledger records the units that were admitted to one key, in the order of the decisions.
//
// If the clock goes back, a limiter decides for the latest time that it has seen. So the ledger does not record an
// admission at a time before that of the previous admission, and bounds are checked against the recorded times.
type ledger struct {
	entries    []entry
	latestCall int64 // latest time of a call so far, admitted or not
}

type entry struct {
	at         int64 // µs since Start, never less than that of the previous entry
	latestCall int64 // µs since Start, the latest time of a call so far
	units      int64 // admitted units that were not refunded
}

// recordCall records a call at a time.
func (l *ledger) recordCall(now time.Duration) { l.latestCall = max(l.latestCall, now.Microseconds()) }

// recordAdmission records units admitted at a time and returns their index.
func (l *ledger) recordAdmission(now time.Duration, units int64) int {
	l.recordCall(now)
	at := now.Microseconds()
	if n := len(l.entries); n > 0 {
		at = max(at, l.entries[n-1].at)
	}
	l.entries = append(l.entries, entry{at: at, latestCall: l.latestCall, units: units})
	return len(l.entries) - 1
}

// recordRefund subtracts units from the entry at index i.
func (l *ledger) recordRefund(i int, units int64) { l.entries[i].units -= units }

// An envelope is the upper bound of admissions in any time t: burst + count/period·t.
type envelope struct {
	burst, count, period int64 // units, units, µs
}

// allows reports whether the envelope allows some units in the time t.
func (e envelope) allows(units int64, t time.Duration) bool {
	bound := new(big.Int).Add(product(e.burst, e.period), product(t.Microseconds(), e.count))
	return product(units, e.period).Cmp(bound) <= 0
}

// withinEnvelope checks that between any two admissions no more was admitted than the envelope allows for the time
// between them. With useCallTime, the later admission counts as made at the latest time of a call so far.
//
// Let A(k) be the units admitted up to entry k, and t(k) its time. For all i ≤ j the check is
// A(j) − A(i−1) ≤ burst + rate·(t(j) − t(i)). With f(j) = A(j) − rate·t(j) and g(i) = A(i−1) − rate·t(i) that is
// f(j) − g(i) ≤ burst, so it is enough to compare f(j) with the smallest g so far. All terms are multiplied by the
// period, so that they are whole numbers.
func (l *ledger) withinEnvelope(e envelope, useCallTime bool) error {
	var smallest *big.Int
	var smallestAt int
	burst := product(e.burst, e.period)
	var before int64 // A(i−1)
	for j, entry := range l.entries {
		g := new(big.Int).Sub(product(before, e.period), product(entry.at, e.count))
		if smallest == nil || g.Cmp(smallest) < 0 {
			smallest, smallestAt = g, j
		}
		before += entry.units
		end := entry.at
		if useCallTime {
			end = entry.latestCall
		}
		f := new(big.Int).Sub(product(before, e.period), product(end, e.count))
		if f.Sub(f, smallest).Cmp(burst) > 0 {
			return fmt.Errorf("%d units admitted from %dµs to %dµs: want at most %d + %d a %dµs",
				l.sum(smallestAt, j), l.entries[smallestAt].at, end, e.burst, e.count, e.period)
		}
	}
	return nil
}

func product(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

func (l *ledger) sum(from, to int) int64 {
	var sum int64
	for _, e := range l.entries[from : to+1] {
		sum += e.units
	}
	return sum
}

// withinAnyInterval checks that at most maxUnits were admitted within any time shorter than width.
func (l *ledger) withinAnyInterval(width time.Duration, maxUnits int64) error {
	first, sum := 0, int64(0)
	for j, e := range l.entries {
		sum += e.units
		for e.at-l.entries[first].at >= width.Microseconds() {
			sum -= l.entries[first].units
			first++
		}
		if sum > maxUnits {
			return fmt.Errorf("%d units admitted from %dµs to %dµs, which is less than %v: want at most %d",
				l.sum(first, j), l.entries[first].at, e.at, width, maxUnits)
		}
	}
	return nil
}

// withinEachWindow checks that at most maxUnits were admitted in each window. Windows begin at multiples of width, plus
// offset.
func (l *ledger) withinEachWindow(width, offset time.Duration, maxUnits int64) error {
	sums := make(map[int64]int64)
	for _, e := range l.entries {
		sums[(Start.UnixMicro()+e.at-offset.Microseconds())/width.Microseconds()] += e.units
	}
	for _, w := range slices.Sorted(maps.Keys(sums)) {
		if sums[w] > maxUnits {
			return fmt.Errorf("%d units admitted in window %d of %v: want at most %d", sums[w], w, width, maxUnits)
		}
	}
	return nil
}

// envelopeOf returns the envelope of a limit of any algorithm but concurrency.
func envelopeOf(l headgate.Limit) envelope {
	if promise, ok := algorithm.PromiseOf(l); ok {
		return envelope{burst: promise.Units, count: promise.Units, period: promise.Interval.Microseconds()}
	}
	e := envelope{burst: l.Capacity(), count: l.Count, period: l.Period.Microseconds()}
	switch l.Algorithm {
	case headgate.FixedWindow, headgate.SlidingWindow: // all of one window at its end, and of the next at its start
		e.burst, e.count = 2*e.burst, 2*e.count
	case headgate.SlidingBuckets: // at most Count in a period without one bucket
		e.period -= windowWidth(l).Microseconds()
	}
	return e
}
