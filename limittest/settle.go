package limittest

import "github.com/headgate/headgate"

// settleChecks check that requests decided under an old limit may be settled under it after the limit has changed.
func settleChecks() []check {
	return append(
		forEach("settle", "under a higher limit", settledLimits, func(tr *trial, l headgate.Limit) { tr.settlesLate(l, faster(l)) }),
		forEach("settle", "under a lower limit", settledLimits, func(tr *trial, l headgate.Limit) { tr.settlesLate(faster(l), l) })...)
}

var settledLimits = parseLimits("10/s", "7/s burst 3", "77/m burst 20", "1001/d burst 100", "7/s gcra burst 3", "10/s leaky-bucket burst 20")

// faster returns a bucket that drains a bit more than three times as fast.
func faster(l headgate.Limit) headgate.Limit {
	l.Count = 3*l.Count + 1
	return l
}

// settlesLate takes under a limit, while requests admitted under the old one are charged more or refunded. No more is
// admitted than by the larger of the two, and consumption is at most rounded up, so that the key is restored. A refund
// uses the limit in force. It may credit units that drained under a faster one, so there is none under a slower one
// here.
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
			if open[i].limit.Count > inForce.Count {
				continue
			}
			n := 1 + tr.rng.Int64N(open[i].Units)
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
		tr.Errorf("%s that was %s: %d count as consumed, want at most the %d that were, and 2 for each of %d charges", l, old, most, consumed, charges)
	}
	if !d.Allowed {
		tr.Advance(d.RetryAfter)
		if d := tr.take("alice", l, l.Capacity()); !d.Allowed || d.RetryAfter != 0 {
			tr.Errorf("%s that was %s: when it was to open: got %+v, want allowed", l, old, d)
		}
	}
}
