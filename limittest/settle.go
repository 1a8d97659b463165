package limittest

import (
	"math/big"
	"time"

	"github.com/headgate/headgate"
)

// settleChecks check that requests decided under an old limit may be settled under it after the limit has changed.
func settleChecks() []check {
	return append(append(append(
		forEach("settle", "under a higher limit", settledLimits,
			func(tr *trial, l headgate.Limit) { tr.settlesLate(l, faster(l)) }),
		forEach("settle", "under a lower limit", settledLimits,
			func(tr *trial, l headgate.Limit) { tr.settlesLate(faster(l), l) })...),
		forEach("settle", "after a limit was lowered", settledLimits,
			func(tr *trial, l headgate.Limit) { tr.refundsLowered(l, faster(l)) })...),
		forEach("settle", "among changes of a limit", settledLimits, (*trial).refundsAmongChanges)...)
}

var settledLimits = parseLimits("10/s", "7/s burst 3", "77/m burst 20", "1001/d burst 100", "7/s gcra burst 3",
	"10/s leaky-bucket burst 20")

// faster returns a bucket that drains a bit more than three times as fast.
func faster(l headgate.Limit) headgate.Limit {
	l.Count = 3*l.Count + 1
	return l
}

// settlesLate takes under a limit, while requests admitted under the old one are charged more or refunded. No more is
// admitted than by the larger of the two, and consumption is at most rounded up, so that the key is restored. A refund
// is credited by the limit that drains faster, that of its units or that in force, so under a slower one a part of it
// may stay consumed.
func (tr *trial) settlesLate(l, old headgate.Limit) {
	type taking struct {
		limit headgate.Limit
		headgate.Receipt
		entry int
	}
	var open []taking
	book := new(ledger)
	take := func(l headgate.Limit) (takes bool) {
		n := cost(tr.rng, l)
		book.ask(tr.at())
		if d := tr.take("alice", l, n); d.Allowed {
			open = append(open, taking{l, d.Receipt, book.admit(tr.at(), n)})
		}
		return n <= l.Capacity()
	}
	for range 5 {
		take(old)
	}
	var consumed, charges int64
	inForce := old
	for range tr.Steps {
		tr.Advance(pause(tr.rng, l, tr.at()))
		switch {
		case len(open) > 0 && tr.rng.IntN(4) == 0:
			i := tr.rng.IntN(len(open))
			n := 1 + tr.rng.Int64N(open[i].Units)
			if open[i].limit.Count > inForce.Count {
				consumed += n
			}
			tr.give(open[i].limit, n, open[i].Receipt)
			book.giveBack(open[i].entry, n)
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
	larger := envelopeOf(l)
	if o := envelopeOf(old); o.count > larger.count {
		larger.count = o.count
	}
	larger.burst = max(l.Capacity(), old.Capacity())
	if err := book.withinEnvelope(larger, false); err != nil {
		tr.Errorf("%s that was %s: %v", l, old, err)
	}
	for _, e := range book.entries {
		consumed += e.units
	}
	d := tr.take("alice", l, l.Capacity())
	if most := l.Capacity() - d.Remaining; !d.Allowed && most > consumed+2*charges+1 {
		tr.Errorf("%s that was %s: %d count as consumed, want at most the %d that were, and 2 for each of %d charges", l, old,
			most, consumed, charges)
	}
	if !d.Allowed {
		tr.Advance(d.RetryAfter)
		if d := tr.take("alice", l, l.Capacity()); !d.Allowed || d.RetryAfter != 0 {
			tr.Errorf("%s that was %s: when it was to open: got %+v, want allowed", l, old, d)
		}
	}
}

// refundsLowered lowers a limit while units that were taken under it drain, fills the key under the lower one, refunds
// the units and takes all that this restores. Units that drained at the faster rate are not credited again, so no more
// is admitted than by the faster limit.
func (tr *trial) refundsLowered(l, old headgate.Limit) {
	book := new(ledger)
	take := func(l headgate.Limit, n int64) (headgate.Receipt, int) {
		book.ask(tr.at())
		d := tr.take("alice", l, n)
		if !d.Allowed || n == 0 {
			return headgate.Receipt{}, 0
		}
		return d.Receipt, book.admit(tr.at(), n)
	}
	fill := func() { take(l, max(0, tr.peek("alice", l).Remaining)) }
	drain := old.Period / time.Duration(old.Count)
	for range 1 + tr.Steps/10 {
		tr.Advance(pause(tr.rng, old, tr.at()))
		n := old.Capacity() - tr.rng.Int64N(old.Capacity()/2)
		receipt, entry := take(old, n)
		tr.Advance(draw(tr.rng, time.Duration(n)*drain))
		take(old, 1)
		fill()
		tr.Advance(draw(tr.rng, drain))
		if receipt.Units > 0 {
			n = 1 + tr.rng.Int64N(n)
			tr.give(old, n, receipt)
			book.giveBack(entry, n)
		}
		fill()
		tr.Advance(tr.peek("alice", l).ResetAfter)
	}
	if err := book.withinEnvelope(envelopeOf(old), false); err != nil {
		tr.Errorf("%s that was %s: %v", l, old, err)
	}
}

// refundsAmongChanges raises and lowers a limit at random, and refunds units that were taken before such changes. No
// refund is credited with more than its units, so all that is not refunded stays within the fastest limit, from the
// first request on. A refund knows only the limit of its units and the one in force. If the limit was raised and
// lowered again in between, units that drained meanwhile are credited: in a shorter time, one refund may come on top.
func (tr *trial) refundsAmongChanges(l headgate.Limit) {
	limits := []headgate.Limit{l, faster(l), faster(faster(l))}
	bound := envelopeOf(limits[2])
	book := new(ledger)
	var open headgate.Receipt // at most one, so that the units of one refund are the bound
	var under headgate.Limit
	entry, most, net := 0, int64(0), int64(0)
	begun := tr.at()
	inForce := l
	for range tr.Steps {
		tr.Advance(pause(tr.rng, limits[2], tr.at()))
		if tr.rng.IntN(3) == 0 {
			inForce = limits[tr.rng.IntN(len(limits))]
		}
		if open.Units > 0 && tr.rng.IntN(3) == 0 {
			n := 1 + tr.rng.Int64N(open.Units)
			tr.give(under, n, open)
			book.giveBack(entry, n)
			net -= n
			open.Units = 0
		}
		n := 1 + tr.rng.Int64N(inForce.Capacity())
		d := tr.take("alice", inForce, n)
		if !d.Allowed {
			continue
		}
		at := book.admit(tr.at(), n)
		if net += n; product(net, bound.period).Cmp(new(big.Int).Add(product(bound.burst, bound.period),
			product((tr.at()-begun).Microseconds(), bound.count))) > 0 {
			tr.Errorf("%s: %d units admitted and not refunded in %v: want at most %d + %d a %dµs",
				l, net, tr.at()-begun, bound.burst, bound.count, bound.period)
			return
		}
		if open.Units == 0 {
			open, under, entry, most = d.Receipt, inForce, at, max(most, n)
		}
	}
	bound.burst += most
	if err := book.withinEnvelope(bound, false); err != nil {
		tr.Errorf("%s, raised and lowered: %v", l, err)
	}
}
