package limittest

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// boundChecks check that a limiter never admits more than its limit, however the clock runs.
func boundChecks() []check {
	return append(append(append(
		forEach("bound", "clock runs", timedLimits, func(tr *trial, l headgate.Limit) {
			tr.keepsBound(l, tr.history(l, func() { tr.Advance(pause(tr.rng, l, tr.at())) }))
		}),
		forEach("bound", "clock steps back", timedLimits, func(tr *trial, l headgate.Limit) {
			tr.keepsBound(l, tr.history(l, func() { tr.moveClock(l) }))
		})...),
		forEach("bound", "clock jumps", timedLimits, func(tr *trial, l headgate.Limit) {
			book := tr.history(l, func() { tr.jumpClock(l) })
			if err := book.withinEnvelope(envelopeOf(l), true); err != nil {
				tr.Errorf("%s: %v", l, err)
			}
		})...),
		forEach("bound", "in flight", inFlightLimits, func(tr *trial, l headgate.Limit) { tr.keepsInFlight(l) })...)
}

// history takes random costs from one key and returns what was admitted. It calls move before each take, to set the
// clock. It does not peek, because a store may forget a key whose units have all expired at the latest time that the
// store knows.
func (tr *trial) history(l headgate.Limit, move func()) *ledger {
	book := new(ledger)
	for range tr.Steps {
		move()
		n := cost(tr.rng, l)
		book.ask(tr.at())
		if tr.take("alice", l, n).Allowed {
			book.admit(tr.at(), n)
		}
	}
	return book
}

// moveClock moves the clock forward by a random pause, or back by as much, but not so far that a store starts over.
func (tr *trial) moveClock(l headgate.Limit) {
	d := pause(tr.rng, l, tr.at())
	if tr.rng.IntN(3) == 0 {
		d = -min(d, time.Hour)
	}
	tr.Advance(d)
}

// jumpClock sets the clock to any time within a few spans of the limit, sometimes years away.
func (tr *trial) jumpClock(l headgate.Limit) {
	switch tr.rng.IntN(20) {
	case 0:
		tr.goTo(draw(tr.rng, 10*366*24*time.Hour))
	case 1, 2, 3, 4:
		tr.Advance(-draw(tr.rng, 2*span(l)))
	case 5, 6, 7, 8:
		tr.Advance(draw(tr.rng, 2*span(l)))
	}
}

// keepsBound fails the test if more was admitted than the limit's algorithm guarantees.
func (tr *trial) keepsBound(l headgate.Limit, book *ledger) {
	if len(book.entries) == 0 {
		tr.Fatalf("%s: nothing was admitted", l)
	}
	if err := bound(l, book); err != nil {
		tr.Errorf("%s: %v", l, err)
	}
}

// bound checks what was admitted to "alice" against the guarantee of the limit's algorithm.
func bound(l headgate.Limit, book *ledger) error {
	if promise, ok := algorithm.PromiseOf(l); ok {
		return book.withinAny(promise.Within, promise.Units)
	}
	switch l.Algorithm {
	case headgate.FixedWindow:
		plan, err := algorithm.NewPlan(l)
		if err != nil {
			return err
		}
		return book.withinEach(l.Period, time.Duration(plan.Offset("alice"))*time.Microsecond, l.Count)
	case headgate.SlidingLog:
		return book.withinAny(l.Period, l.Count)
	case headgate.SlidingWindow:
		return book.withinAny(l.Period, 2*l.Count)
	case headgate.SlidingBuckets:
		return book.withinAny(l.Period-grain(l)+time.Microsecond, l.Count)
	default:
		return book.withinEnvelope(envelopeOf(l), false)
	}
}

// keepsInFlight takes and releases slots at random and counts how many are held.
func (tr *trial) keepsInFlight(l headgate.Limit) {
	type slot struct {
		headgate.Receipt
		until time.Duration
	}
	var held []slot
	for range tr.Steps {
		tr.Advance(pause(tr.rng, l, tr.at()))
		var inFlight int64
		alive := held[:0]
		for _, p := range held {
			if p.until > tr.at() {
				alive = append(alive, p)
				inFlight += p.Units
			}
		}
		held = alive
		if len(held) > 0 && tr.rng.IntN(3) == 0 {
			i := tr.rng.IntN(len(held))
			tr.give(l, held[i].Units, held[i].Receipt)
			inFlight -= held[i].Units
			held = append(held[:i], held[i+1:]...)
		}
		n := cost(tr.rng, l)
		d := tr.take("alice", l, n)
		if want := inFlight+n <= l.Count; d.Allowed != want {
			tr.Fatalf("%s: cost %d with %d in flight: got %s, want %s", l, n, inFlight, outcome(d.Allowed), outcome(want))
		}
		if d.Allowed {
			inFlight += n
			held = append(held, slot{d.Receipt, tr.at() + span(l)})
		}
		if d.Remaining != l.Count-inFlight {
			tr.Fatalf("%s: %d in flight: got %d remaining, want %d", l, inFlight, d.Remaining, l.Count-inFlight)
		}
	}
}
