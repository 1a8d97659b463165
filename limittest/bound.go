package limittest

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// boundTests check that a limiter never admits more than its limit, even if the clock steps back or jumps.
func boundTests() []suiteTest {
	return slices.Concat(
		forEach("bound", "clock runs", timedLimits, func(tr *trial, l headgate.Limit) {
			tr.requireWithinBound(l, tr.history(l, func() { tr.Advance(randomPause(tr.rng, l, tr.elapsed())) }))
		}),
		forEach("bound", "clock steps back", timedLimits, func(tr *trial, l headgate.Limit) {
			tr.requireWithinBound(l, tr.history(l, func() { tr.moveClock(l) }))
		}),
		forEach("bound", "clock jumps", timedLimits, func(tr *trial, l headgate.Limit) {
			admitted := tr.history(l, func() { tr.jumpClock(l) })
			if err := admitted.withinEnvelope(envelopeOf(l), true); err != nil {
				tr.Errorf("%s: %v", l, err)
			}
		}),
		forEach("bound", "in flight", inFlightLimits, (*trial).slotsWithinLimit))
}

// history takes random costs from one key and returns a ledger of the admissions. It calls move before each take, to
// set the clock. It does not peek, because a store may drop a key whose units have all expired at the latest time that
// the store knows.
func (tr *trial) history(l headgate.Limit, move func()) *ledger {
	admitted := new(ledger)
	for range tr.Steps {
		move()
		n := randomCost(tr.rng, l)
		admitted.recordCall(tr.elapsed())
		if tr.take("alice", l, n).Allowed {
			admitted.recordAdmission(tr.elapsed(), n)
		}
	}
	return admitted
}

// moveClock moves the clock forward by a random pause, or back by at most an hour. After a larger step back, a
// store may drop its state.
func (tr *trial) moveClock(l headgate.Limit) {
	d := randomPause(tr.rng, l, tr.elapsed())
	if tr.rng.IntN(3) == 0 {
		d = -min(d, time.Hour)
	}
	tr.Advance(d)
}

// jumpClock moves the clock at random: in most steps not at all, sometimes by up to twice the restore time of the limit
// in either direction, and rarely to a time within ten years after Start.
func (tr *trial) jumpClock(l headgate.Limit) {
	switch tr.rng.IntN(20) {
	case 0:
		tr.setElapsed(randomDuration(tr.rng, 10*366*24*time.Hour))
	case 1, 2, 3, 4:
		tr.Advance(-randomDuration(tr.rng, 2*restoreTime(l)))
	case 5, 6, 7, 8:
		tr.Advance(randomDuration(tr.rng, 2*restoreTime(l)))
	}
}

// requireWithinBound fails the test if more was admitted than the limit's algorithm guarantees.
func (tr *trial) requireWithinBound(l headgate.Limit, admitted *ledger) {
	if len(admitted.entries) == 0 {
		tr.Fatalf("%s: nothing was admitted", l)
	}
	if err := bound(l, admitted); err != nil {
		tr.Errorf("%s: %v", l, err)
	}
}

// bound returns an error if more was admitted to "alice" than the limit's algorithm guarantees.
func bound(l headgate.Limit, admitted *ledger) error {
	if promise, ok := algorithm.PromiseOf(l); ok {
		return admitted.withinAnyInterval(promise.Interval, promise.Units)
	}
	switch l.Algorithm {
	case headgate.FixedWindow:
		plan, err := algorithm.NewPlan(l)
		if err != nil {
			return err
		}
		return admitted.withinEachWindow(l.Period, time.Duration(plan.Offset("alice"))*time.Microsecond, l.Count)
	case headgate.SlidingLog:
		return admitted.withinAnyInterval(l.Period, l.Count)
	case headgate.SlidingWindow:
		return admitted.withinAnyInterval(l.Period, 2*l.Count)
	case headgate.SlidingBuckets:
		return admitted.withinAnyInterval(l.Period-windowWidth(l)+time.Microsecond, l.Count)
	default:
		return admitted.withinEnvelope(envelopeOf(l), false)
	}
}

// slotsWithinLimit takes and releases slots at random and counts how many are held.
func (tr *trial) slotsWithinLimit(l headgate.Limit) {
	var held []slot
	for range tr.Steps {
		tr.Advance(randomPause(tr.rng, l, tr.elapsed()))
		held = slices.DeleteFunc(held, func(s slot) bool { return s.until <= tr.elapsed() })
		inFlight := heldUnits(held, tr.elapsed())
		if len(held) > 0 && tr.rng.IntN(3) == 0 {
			i := tr.rng.IntN(len(held))
			tr.give(l, held[i].Units, held[i].Receipt)
			inFlight -= held[i].Units
			held = slices.Delete(held, i, i+1)
		}
		n := randomCost(tr.rng, l)
		d := tr.take("alice", l, n)
		if want := inFlight+n <= l.Count; d.Allowed != want {
			tr.Fatalf("%s: cost %d with %d in flight: got %s, want %s", l, n, inFlight, outcome(d.Allowed), outcome(want))
		}
		if d.Allowed {
			inFlight += n
			held = append(held, slot{d.Receipt, tr.elapsed() + restoreTime(l)})
		}
		if d.Remaining != l.Count-inFlight {
			tr.Fatalf("%s: %d in flight: got %d remaining, want %d", l, inFlight, d.Remaining, l.Count-inFlight)
		}
	}
}
