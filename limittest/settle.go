package limittest

import (
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

// settlesUnderOldLimit takes under a limit, while requests that were admitted under the old limit are charged more or
// refunded. No more is admitted than the larger of the two limits allows. Consumption is at most rounded up, and the
// key is restored when a denial says.
func (tr *trial) settlesUnderOldLimit(l, old headgate.Limit) {
	calls := &settleCalls{trial: tr, inForce: old}
	for range 5 {
		calls.take(old)
	}
	for range tr.Steps {
		tr.Advance(randomPause(tr.rng, l, tr.elapsed()))
		switch {
		case len(calls.refundable) > 0 && tr.rng.IntN(4) == 0:
			calls.refund()
		case tr.rng.IntN(8) == 0:
			calls.charge(old)
		default:
			calls.take(l)
		}
	}
	if err := calls.admitted.withinEnvelope(largerEnvelope(l, old), false); err != nil {
		tr.Errorf("%s that was %s: %v", l, old, err)
	}
	d := tr.take("alice", l, l.Capacity())
	if d.Allowed {
		return
	}
	if counted, maxConsumed := l.Capacity()-d.Remaining, calls.maxConsumed(); counted > maxConsumed {
		tr.Errorf("%s that was %s: %d count as consumed, want at most %d", l, old, counted, maxConsumed)
	}
	tr.Advance(d.RetryAfter)
	if d := tr.take("alice", l, l.Capacity()); !d.Allowed || d.RetryAfter != 0 {
		tr.Errorf("%s that was %s: when it was to open: got %+v, want allowed", l, old, d)
	}
}

// settleCalls makes random calls for one key whose limit changes, and adds up what they may have consumed.
type settleCalls struct {
	*trial
	admitted   ledger
	refundable []admission
	inForce    headgate.Limit // the limit of the latest call that changed the key
	charged    int64          // units
	charges    int64
	// stillConsumed are refunded units that may stay consumed. A refund is credited at the faster of two drain rates: that
	// of the limit under which the units were taken, and that of the limit in force. If the latter is slower, a part of
	// the refund stays consumed.
	stillConsumed int64
}

// An admission is units that can be refunded.
type admission struct {
	limit headgate.Limit
	headgate.Receipt
	entry int // index in the ledger
}

// take takes a random number of units.
func (s *settleCalls) take(l headgate.Limit) {
	n := randomCost(s.rng, l)
	s.admitted.recordCall(s.elapsed())
	if d := s.trial.take("alice", l, n); d.Allowed {
		s.refundable = append(s.refundable, admission{l, d.Receipt, s.admitted.recordAdmission(s.elapsed(), n)})
	}
	if n <= l.Capacity() {
		s.inForce = l
	}
}

// refund refunds some units of a random admission.
func (s *settleCalls) refund() {
	i := s.rng.IntN(len(s.refundable))
	a := s.refundable[i]
	n := 1 + s.rng.Int64N(a.Units)
	if a.limit.Count > s.inForce.Count {
		s.stillConsumed += n
	}
	s.give(a.limit, n, a.Receipt)
	s.admitted.recordRefund(a.entry, n)
	s.refundable = slices.Delete(s.refundable, i, i+1)
}

// charge charges one to three units.
func (s *settleCalls) charge(l headgate.Limit) {
	s.charged += s.trial.charge(l, 1+s.rng.Int64N(3)).Receipt.Units
	s.charges++
	s.inForce = l
}

// maxConsumed returns the maximum number of units that may count as consumed. Rounding may add two units for each
// charge, and one for the key.
func (s *settleCalls) maxConsumed() int64 {
	consumed := s.charged + s.stillConsumed
	for _, e := range s.admitted.entries {
		consumed += e.units
	}
	return consumed + 2*s.charges + 1
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

// refundsAmongChanges raises and lowers a limit at random, and refunds units that were taken before such changes. It
// checks two bounds:
//
//   - From the first request on, the units that are not refunded stay within the fastest limit, because no refund is
//     credited with more than its units.
//   - Between any two requests, at most one refund is admitted above the fastest limit. The limiter knows only the limit
//     under which the units were taken and the limit in force. If the limit was raised and lowered again in between, it
//     credits units that have already drained at the higher rate.
func (tr *trial) refundsAmongChanges(l headgate.Limit) {
	limits := []headgate.Limit{l, faster(l), faster(faster(l))}
	bound := envelopeOf(limits[2])
	admitted := new(ledger)
	var open headgate.Receipt // at most one, so that the units of one refund are the bound
	var openLimit headgate.Limit
	var openEntry int
	var maxRefund, net int64 // net is the number of units admitted and not refunded
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
		if net += n; !bound.allows(net, tr.elapsed()-start) {
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
