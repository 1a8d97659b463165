package limittest

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// refundChecks check that a refund reverts a take, and never more than that.
func refundChecks() []check {
	return append(append(append(append(
		forEach("refund", "at once undoes", allLimits, func(tr *trial, l headgate.Limit) { tr.refundUndoes(l) }),
		forEach("refund", "keeps the bound", timedLimits, func(tr *trial, l headgate.Limit) { tr.refundsKeepBound(l) })...),
		forEach("refund", "too late adds nothing", allLimits, func(tr *trial, l headgate.Limit) { tr.lateRefund(l) })...),
		forEach("refund", "never raises Remaining", allLimits,
			func(tr *trial, l headgate.Limit) { tr.refundNeverLifts(l) })...),
		forEach("refund", "of a charge", timedLimits, func(tr *trial, l headgate.Limit) { tr.chargeRefund(l) })...)
}

// refundUndoes refunds at the time of taking, in one piece or two.
func (tr *trial) refundUndoes(l headgate.Limit) {
	for range tr.Steps {
		tr.randomStep(l)
		before := tr.peek("alice", l)
		n := cost(tr.rng, l)
		d := tr.take("alice", l, n)
		if !d.Allowed {
			continue
		}
		part := tr.rng.Int64N(n)
		if part > 0 {
			tr.give(l, part, d.Receipt)
			if after := tr.peek("alice", l); after.Remaining != before.Remaining-n+part {
				tr.Fatalf("%s: %d remaining of %d after taking %d and giving %d back", l, after.Remaining, before.Remaining, n,
					part)
			}
		}
		tr.give(l, n-part, d.Receipt)
		if after := tr.peek("alice", l); after != before {
			tr.Fatalf("%s: took %d and gave them back: got %+v, want %+v", l, n, after, before)
		}
	}
}

// refundsKeepBound refunds some of what was taken, sooner or later, and records the rest.
func (tr *trial) refundsKeepBound(l headgate.Limit) {
	type taking struct {
		headgate.Receipt
		entry int
	}
	var open []taking
	book := new(ledger)
	for range tr.Steps {
		tr.Advance(pause(tr.rng, l, tr.at()))
		if len(open) > 0 && tr.rng.IntN(3) == 0 {
			i := tr.rng.IntN(len(open))
			n := 1 + tr.rng.Int64N(open[i].Units)
			tr.give(l, n, open[i].Receipt)
			book.giveBack(open[i].entry, n)
			tr.peek("alice", l) // fails if more remains than the capacity
			open = append(open[:i], open[i+1:]...)
		}
		n := cost(tr.rng, l)
		if d := tr.take("alice", l, n); d.Allowed {
			open = append(open, taking{d.Receipt, book.admit(tr.at(), n)})
		}
	}
	tr.keepsBound(l, book)
}

// refundNeverLifts runs one history on two limiters, one of which also takes and refunds later: it must never have more
// than the other.
func (tr *trial) refundNeverLifts(l headgate.Limit) {
	other := tr.twin()
	var open []headgate.Receipt
	for range tr.Steps {
		tr.Advance(pause(tr.rng, l, tr.at()))
		if len(open) > 0 && tr.rng.IntN(2) == 0 {
			i := tr.rng.IntN(len(open))
			tr.give(l, open[i].Units, open[i])
			open = append(open[:i], open[i+1:]...)
		}
		if d := tr.take("alice", l, cost(tr.rng, l)); d.Allowed {
			open = append(open, d.Receipt)
		}
		n := cost(tr.rng, l)
		if tr.take("alice", l, n).Allowed && !other.take("alice", l, n).Allowed {
			tr.Fatalf("%s: cost %d was allowed after refunds, and denied to a client that never took", l, n)
		}
		if got, most := tr.peek("alice", l).Remaining, other.peek("alice", l).Remaining; got > most {
			tr.Fatalf("%s: %d remaining after refunds, %d to a client that never took", l, got, most)
		}
	}
}

// lateRefund refunds units that time has restored already.
func (tr *trial) lateRefund(l headgate.Limit) {
	for range tr.Steps {
		tr.randomStep(l)
		n := cost(tr.rng, l)
		d := tr.take("alice", l, n)
		if !d.Allowed {
			continue
		}
		tr.Advance(unitLifetime(l, n) + draw(tr.rng, span(l)))
		tr.take("alice", l, cost(tr.rng, l))
		before := tr.peek("alice", l)
		tr.give(l, n, d.Receipt)
		if after := tr.peek("alice", l); after != before {
			tr.Fatalf("%s: %d units given back too late: got %+v, want %+v", l, n, after, before)
		}
	}
	tr.reset("alice")
	d := tr.take("alice", l, 1)
	tr.reset("alice")
	tr.give(l, 1, d.Receipt)
	tr.requireNew("alice", l, "given back after a reset")
}

// unitLifetime returns the time after which n units have no effect any more.
func unitLifetime(l headgate.Limit, n int64) time.Duration {
	if promise, ok := algorithm.PromiseOf(l); ok {
		return promise.Memory
	}
	switch {
	case isBucket(l):
		e := envelopeOf(l)
		wait := product(n, e.period)
		wait.Add(wait, product(1, e.count-1))
		return time.Duration(wait.Div(wait, product(1, e.count)).Int64()) * time.Microsecond
	case l.Algorithm == headgate.SlidingWindow:
		return 2 * l.Period
	default:
		return span(l) + grain(l)
	}
}

// chargeRefund charges up to the largest debt, and refunds what the receipts say was charged.
func (tr *trial) chargeRefund(l headgate.Limit) {
	tr.take("alice", l, l.Capacity())
	before := tr.peek("alice", l)
	var receipts []headgate.Receipt
	for range headgate.MaxDebt + 2 {
		receipts = append(receipts, tr.charge(l, l.Capacity()).Receipt)
	}
	for _, r := range receipts {
		if r.Units > 0 {
			tr.give(l, r.Units, r)
		}
	}
	if after := tr.peek("alice", l); after != before {
		tr.Errorf("%s: charged into debt and gave it back: got %+v, want %+v", l, after, before)
	}
}
