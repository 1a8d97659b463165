package limittest

import (
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// refundTests check that a refund returns the units of a take, and never more.
func refundTests() []suiteTest {
	return slices.Concat(
		forEach("refund", "at once undoes", allLimits, (*trial).refundUndoes),
		forEach("refund", "keeps the bound", timedLimits, (*trial).refundsKeepBound),
		forEach("refund", "too late adds nothing", allLimits, (*trial).refundsTooLate),
		forEach("refund", "never raises Remaining", allLimits, (*trial).refundNeverRaises),
		forEach("refund", "of a charge", timedLimits, (*trial).refundsCharges))
}

// refundUndoes checks that a refund at the time of the take restores the key, also if it is made in two parts.
func (tr *trial) refundUndoes(l headgate.Limit) {
	for range tr.Steps {
		tr.randomStep(l)
		before := tr.peek("alice", l)
		n := randomCost(tr.rng, l)
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

// refundsKeepBound refunds some units after random times, and checks that the units that were not refunded stay
// within the bound.
func (tr *trial) refundsKeepBound(l headgate.Limit) {
	var refundable []admission
	admitted := new(ledger)
	for range tr.Steps {
		tr.Advance(randomPause(tr.rng, l, tr.elapsed()))
		if len(refundable) > 0 && tr.rng.IntN(3) == 0 {
			i := tr.rng.IntN(len(refundable))
			n := 1 + tr.rng.Int64N(refundable[i].Units)
			tr.give(l, n, refundable[i].Receipt)
			admitted.recordRefund(refundable[i].entry, n)
			tr.peek("alice", l) // fails if more remains than the capacity
			refundable = slices.Delete(refundable, i, i+1)
		}
		n := randomCost(tr.rng, l)
		if d := tr.take("alice", l, n); d.Allowed {
			refundable = append(refundable, admission{l, d.Receipt, admitted.recordAdmission(tr.elapsed(), n)})
		}
	}
	tr.requireWithinBound(l, admitted)
}

// refundNeverRaises runs the same history on two limiters. One of them also takes further units and refunds them
// later. It must never have more units remaining than the other.
func (tr *trial) refundNeverRaises(l headgate.Limit) {
	other := tr.twin()
	var receipts []headgate.Receipt
	for range tr.Steps {
		tr.Advance(randomPause(tr.rng, l, tr.elapsed()))
		if len(receipts) > 0 && tr.rng.IntN(2) == 0 {
			i := tr.rng.IntN(len(receipts))
			tr.give(l, receipts[i].Units, receipts[i])
			receipts = slices.Delete(receipts, i, i+1)
		}
		if d := tr.take("alice", l, randomCost(tr.rng, l)); d.Allowed {
			receipts = append(receipts, d.Receipt)
		}
		n := randomCost(tr.rng, l)
		if tr.take("alice", l, n).Allowed && !other.take("alice", l, n).Allowed {
			tr.Fatalf("%s: cost %d was allowed after refunds, and denied to a client that never took", l, n)
		}
		if got, otherRemaining := tr.peek("alice", l).Remaining, other.peek("alice", l).Remaining; got > otherRemaining {
			tr.Fatalf("%s: %d remaining after refunds, %d to a client that never took", l, got, otherRemaining)
		}
	}
}

// refundsTooLate refunds units that time has restored already.
func (tr *trial) refundsTooLate(l headgate.Limit) {
	for range tr.Steps {
		tr.randomStep(l)
		n := randomCost(tr.rng, l)
		d := tr.take("alice", l, n)
		if !d.Allowed {
			continue
		}
		tr.Advance(unitLifetime(l, n) + randomDuration(tr.rng, restoreTime(l)))
		tr.take("alice", l, randomCost(tr.rng, l))
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
	tr.requireUnused("alice", l, "given back after a reset")
}

// unitLifetime returns the time after which n units have no effect any more.
func unitLifetime(l headgate.Limit, n int64) time.Duration {
	if promise, ok := algorithm.PromiseOf(l); ok {
		return promise.Memory
	}
	switch {
	case isBucket(l): // the time in which n units drain, n·period/count, rounded up
		e := envelopeOf(l)
		wait := product(n, e.period)
		wait.Add(wait, product(1, e.count-1))
		return time.Duration(wait.Div(wait, product(1, e.count)).Int64()) * time.Microsecond
	case l.Algorithm == headgate.SlidingWindow:
		return 2 * l.Period
	default:
		return restoreTime(l) + windowWidth(l)
	}
}

// refundsCharges charges up to the largest debt, and refunds what the receipts say was charged.
func (tr *trial) refundsCharges(l headgate.Limit) {
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
