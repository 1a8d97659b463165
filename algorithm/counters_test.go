package algorithm

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// A lastCounter counts the units that were taken since the last full period.
type lastCounter struct{}

func (lastCounter) advance(p *Plan, c counters, from, to int64) counters {
	if floorTo(from, p.period) != floorTo(to, p.period) {
		return counters{}
	}
	return c
}

func (lastCounter) used(_ *Plan, c counters, _ int64) int64 { return c[0] }

func (lastCounter) fadeTime(p *Plan, _ counters, at, _ int64) int64 {
	return floorTo(at, p.period) + p.period
}

func (lastCounter) add(_ *Plan, c counters, _, n int64) counters {
	c[0] += n
	return c
}

func (lastCounter) remove(p *Plan, c counters, at, n, taken int64) counters {
	if floorTo(taken, p.period) == floorTo(at, p.period) {
		c[0] = max(0, c[0]-n)
	}
	return c
}

func (lastCounter) promise(l headgate.Limit) Promise {
	return Promise{Units: 2 * l.Count, Interval: l.Period, Memory: l.Period}
}

func (lastCounter) counts(l headgate.Limit, history []Event, at int64) (units int64) {
	for _, taking := range history {
		if taking.At/l.Period.Microseconds() == at/l.Period.Microseconds() {
			units = max(0, units+taking.Units)
		}
	}
	return units
}

// TestCountingDecidesAsFixedWindow gives the same history to fixed-window and to a counter of the same windows.
func TestCountingDecidesAsFixedWindow(t *testing.T) {
	limit := headgate.Limit{Algorithm: headgate.FixedWindow, Count: 10, Period: time.Minute}
	plan, err := NewPlan(limit)
	if err != nil {
		t.Fatal(err)
	}
	counter := *plan
	counter.kind, counter.steps = KindCounters, counting[lastCounter]{}
	counter.head = counter.newHead()
	var want, got State
	var receipt headgate.Receipt
	for i, step := range []struct {
		verb   string
		at, n  int64
		allows bool
	}{
		{"take", 0, 4, true},
		{"take", 30_000_000, 7, false},
		{"take", 20_000_000, 0, true},
		{"take", 59_999_999, 6, true},
		{"give", 59_999_999, 5, true},
		{"take", 59_999_999, 5, true},
		{"take", 10_000_000, 1, false},
		{"take", 60_000_000, 10, true},
		{"charge", 60_000_001, 1000, false},
		{"take", 61_000_000, 0, false},
		{"take", 61_000_000, 11, false},
		{"take", 180_000_000, 1, true},
	} {
		var d, e headgate.Decision
		switch step.verb {
		case "take":
			want, d = plan.Take(want, step.at, step.n, 0)
			got, e = counter.Take(got, step.at, step.n, 0)
			receipt = d.Receipt
		case "charge":
			want, d, _ = plan.Charge(want, step.at, step.n)
			got, e, _ = counter.Charge(got, step.at, step.n)
		default:
			want = plan.Give(want, step.at, step.n, receipt)
			got = counter.Give(got, step.at, step.n, receipt)
			d, e = plan.Decide(want, step.at, 1), counter.Decide(got, step.at, 1)
		}
		if d != e || d.Allowed != step.allows {
			t.Errorf("step %d: got %+v, want %+v, allowed %v", i, e, d, step.allows)
		}
		at, units := plan.steps.consumed(plan, want, step.at)
		if when, consumed := counter.steps.consumed(&counter, got, step.at); when != at || consumed != units {
			t.Errorf("step %d: consumed %d at %d, want %d at %d", i, consumed, when, units, at)
		}
	}
	state := counter.NewState(90_000_000, 3)
	if counter.Decide(state, 90_000_000, 0).Remaining != 7 || !counter.Owns(state) {
		t.Errorf("placed 3 of 10 units: %v", state)
	}
}
