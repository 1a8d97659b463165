package limittest

import (
	"math/big"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// settleTests check that a request can be charged or refunded under its old limit after the limit has changed.
func settleTests() []suiteTest {
	return slices.Concat(
		forEach("settle", "under a higher limit", settledLimits,
			func(tr *trial, l headgate.Limit) { tr.settlesUnderOldLimit(l, faster(l)) }),
		forEach("settle", "under a lower limit", settledLimits,
			func(tr *trial, l headgate.Limit) { tr.settlesUnderOldLimit(faster(l), l) }),
		forEach("settle", "after a limit was lowered", settledLimits,
			func(tr *trial, l headgate.Limit) { tr.refundsAfterLowering(l, faster(l)) }),
		forEach("settle", "among changes of a limit", settledLimits, (*trial).refundsAmongChanges))
}

var settledLimits = parseLimits("10/s", "7/s burst 3", "77/m burst 20", "1001/d burst 100", "7/s gcra burst 3",
	"10/s leaky-bucket burst 20")

// faster returns a bucket limit that drains a bit more than three times as fast.
func faster(l headgate.Limit) headgate.Limit {
	l.Count = 3*l.Count + 1
	return l
}

// settlesUnderOldLimit takes under a limit, while requests admitted under the old one are charged more or refunded.
// No more is admitted than the larger of the two limits allows, and consumption is at most rounded up, so that the
// key is restored. A refund is credited at the faster of two drain rates: that of the limit under which the units
// were taken, and that of the limit in force. Under the slower limit a part of it may therefore stay consumed.
func (tr *trial) settlesUnderOldLimit(l, old headgate.Limit) {
	type refundable struct {
		limit headgate.Limit
		headgate.Receipt
		entry int
	}
	var open []refundable
	admitted := new(ledger)
	take := func(l headgate.Limit) (possible bool) {
		n := randomCost(tr.rng, l)
		admitted.recordCall(tr.elapsed())
		if d := tr.take("alice", l, n); d.Allowed {
			open = append(open, refundable{l, d.Receipt, admitted.recordAdmission(tr.elapsed(), n)})
		}
		return n <= l.Capacity()
	}
	for range 5 {
		take(old)
	}
	var consumed, charges int64
	inForce := old
	for range tr.Steps {
		tr.Advance(randomPause(tr.rng, l, tr.elapsed()))
		switch {
		case len(open) > 0 && tr.rng.IntN(4) == 0:
			i := tr.rng.IntN(len(open))
			n := 1 + tr.rng.Int64N(open[i].Units)
			if open[i].limit.Count > inForce.Count {
				consumed += n
			}
			tr.give(open[i].limit, n, open[i].Receipt)
			admitted.recordRefund(open[i].entry, n)
			open = append(open[:i], open[i+1:]...)
		case tr.rng.IntN(8) == 0:
			consumed += tr.charge(old, 1+tr.rng.Int64N(3)).Receipt.Units
			charges++
			inForce = old
		default:
			if take(l) {
				inForce = l
			}
		}
	}
	if err := admitted.withinEnvelope(largerEnvelope(l, old), false); err != nil {
		tr.Errorf("%s that was %s: %v", l, old, err)
	}
	for _, e := range admitted.entries {
		consumed += e.units
	}
	d := tr.take("alice", l, l.Capacity())
	if counted := l.Capacity() - d.Remaining; !d.Allowed && counted > consumed+2*charges+1 {
		tr.Errorf("%s that was %s: %d count as consumed, want at most the %d that were, and 2 for each of %d charges", l, old,
			counted, consumed, charges)
	}
	if !d.Allowed {
		tr.Advance(d.RetryAfter)
		if d := tr.take("alice", l, l.Capacity()); !d.Allowed || d.RetryAfter != 0 {
			tr.Errorf("%s that was %s: when it was to open: got %+v, want allowed", l, old, d)
		}
	}
}

// largerEnvelope returns the larger rate and the larger burst of two bucket limits with the same period.
func largerEnvelope(l, other headgate.Limit) envelope {
	e := envelopeOf(l)
	e.count = max(e.count, envelopeOf(other).count)
	e.burst = max(l.Capacity(), other.Capacity())
	return e
}

// refundsAfterLowering lowers a limit while units that were taken under it drain, fills the key under the lower limit,
// refunds the units and takes all that this restores. Units that drained at the faster rate are not credited again, so
// no more is admitted than by the faster limit.
func (tr *trial) refundsAfterLowering(l, old headgate.Limit) {
	admitted := new(ledger)
	take := func(l headgate.Limit, n int64) (headgate.Receipt, int) {
		admitted.recordCall(tr.elapsed())
		d := tr.take("alice", l, n)
		if !d.Allowed || n == 0 {
			return headgate.Receipt{}, 0
		}
		return d.Receipt, admitted.recordAdmission(tr.elapsed(), n)
	}
	fill := func() { take(l, max(0, tr.peek("alice", l).Remaining)) }
	drain := old.Period / time.Duration(old.Count)
	for range 1 + tr.Steps/10 {
		tr.Advance(randomPause(tr.rng, old, tr.elapsed()))
		n := old.Capacity() - tr.rng.Int64N(old.Capacity()/2)
		receipt, entry := take(old, n)
		tr.Advance(randomDuration(tr.rng, time.Duration(n)*drain))
		take(old, 1)
		fill()
		tr.Advance(randomDuration(tr.rng, drain))
		if receipt.Units > 0 {
			n = 1 + tr.rng.Int64N(n)
			tr.give(old, n, receipt)
			admitted.recordRefund(entry, n)
		}
		fill()
		tr.Advance(tr.peek("alice", l).ResetAfter)
	}
	if err := admitted.withinEnvelope(envelopeOf(old), false); err != nil {
		tr.Errorf("%s that was %s: %v", l, old, err)
	}
}

// refundsAmongChanges raises and lowers a limit at random, and refunds units that were taken before such changes. No
// refund is credited with more than its units, so all that is not refunded stays within the fastest limit, from the
// first request on. A refund knows only the limit of its units and the limit in force. If the limit was raised and
// lowered again in between, units that drained meanwhile are credited: in a shorter time, one refund may come on top.
func (tr *trial) refundsAmongChanges(l headgate.Limit) {
	limits := []headgate.Limit{l, faster(l), faster(faster(l))}
	bound := envelopeOf(limits[2])
	admitted := new(ledger)
	var open headgate.Receipt // at most one, so that the units of one refund are the bound
	var openLimit headgate.Limit
	openEntry, maxRefund, net := 0, int64(0), int64(0)
	start := tr.elapsed()
	inForce := l
	for range tr.Steps {
		tr.Advance(randomPause(tr.rng, limits[2], tr.elapsed()))
		if tr.rng.IntN(3) == 0 {
			inForce = limits[tr.rng.IntN(len(limits))]
		}
		if open.Units > 0 && tr.rng.IntN(3) == 0 {
			n := 1 + tr.rng.Int64N(open.Units)
			tr.give(openLimit, n, open)
			admitted.recordRefund(openEntry, n)
			net -= n
			open.Units = 0
		}
		n := 1 + tr.rng.Int64N(inForce.Capacity())
		d := tr.take("alice", inForce, n)
		if !d.Allowed {
			continue
		}
		at := admitted.recordAdmission(tr.elapsed(), n)
		if net += n; product(net, bound.period).Cmp(new(big.Int).Add(product(bound.burst, bound.period),
			product((tr.elapsed()-start).Microseconds(), bound.count))) > 0 {
			tr.Errorf("%s: %d units admitted and not refunded in %v: want at most %d + %d a %dµs",
				l, net, tr.elapsed()-start, bound.burst, bound.count, bound.period)
			return
		}
		if open.Units == 0 {
			open, openLimit, openEntry, maxRefund = d.Receipt, inForce, at, max(maxRefund, n)
		}
	}
	bound.burst += maxRefund
	if err := admitted.withinEnvelope(bound, false); err != nil {
		tr.Errorf("%s, raised and lowered: %v", l, err)
	}
}
