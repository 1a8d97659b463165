package ledger

import (
	"context"

	"github.com/headgate/headgate"
)

// TakeAll decides several checks as one. See [headgate.Limiter].
func (l *Ledger) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	if err := l.admit(ctx); err != nil {
		return dst, err
	}
	now := l.now()
	var room [8]ask
	asks := room[:0]
	if len(checks) > len(room) {
		asks = make([]ask, 0, len(checks))
	}
	var touched uint64 // shards
	for i := range checks {
		a, _, err := l.ask(&checks[i])
		if err != nil {
			return dst, err
		}
		touched |= 1 << (a.key[0] % shards)
		asks = append(asks, a)
	}
	if err := headgate.ValidateAll(checks); err != nil {
		return dst, err
	}
	first := len(dst)
	dst, waits, err := l.decideAll(asks, checks, touched, dst, now)
	if waits == nil {
		return dst, err
	}
	if err := l.Await(ctx, waits...); err != nil {
		return dst[:first], err
	}
	for i := range asks {
		asks[i].patient = false
	}
	dst, _, err = l.decideAll(asks, checks, touched, dst[:first], l.now())
	return dst, err
}

// decideAll decides asks, all or none, or returns what has to be waited for before.
func (l *Ledger) decideAll(
	asks []ask, checks []headgate.Check, touched uint64, dst []headgate.Decision, now moment,
) (_ []headgate.Decision, waits []*Lookup, _ error) {
	// In the order of the shards, so that no two calls wait for each other.
	for i := range l.shards {
		if touched>>i&1 == 1 {
			l.shards[i].mu.Lock()
		}
	}
	defer func() {
		for i := range l.shards {
			if touched>>i&1 == 1 {
				l.shards[i].mu.Unlock()
			}
		}
	}()
	first := len(dst)
	open := true
	for i := range asks {
		a := &asks[i]
		d := l.peek(a, now)
		if a.shut {
			d = l.shut(&checks[i], now)
		}
		open = open && d.Allowed && !a.shut
		dst = append(dst, d)
	}
	for i := range asks {
		if a := &asks[i]; open || a.n == 0 {
			if wait := l.seeOf(a, now); wait != nil {
				waits = append(waits, wait)
			}
			a.patient = false
		}
	}
	switch {
	case waits != nil:
		return dst[:first], waits, nil
	case !open:
		for i := range asks {
			l.turnedDown(&asks[i], &dst[first+i], now)
		}
		return dst, nil, nil
	}
	for i := range asks {
		if _, err := l.take(l.shardOf(&asks[i].key), &asks[i], now, &dst[first+i]); err != nil {
			l.undo(asks[:i], dst[first:first+i], now)
			return dst[:first], nil, err
		}
	}
	return dst, nil, nil
}

// seeOf notes that a key is decided on; see Ledger.see. The shard is locked.
func (l *Ledger) seeOf(a *ask, now moment) *Lookup {
	sh := l.shardOf(&a.key)
	r := sh.records[a.key]
	if r == nil && a.n == 0 && l.asks && a.plan.Shared {
		r, _ = l.add(sh, a.key, a.plan, a.offset, now) // if there is no room, it is not learned
	}
	if r == nil || !r.unlearned && r.at(now)-r.askedAt <= l.learning.cold {
		return nil
	}
	return l.see(sh, r, a, now)
}

// peek tells what a take would answer.
func (l *Ledger) peek(a *ask, now moment) headgate.Decision {
	sh := l.shardOf(&a.key)
	r := sh.records[a.key]
	if r == nil {
		if cur := sh.inForce(a.key, a.plan.Kind); cur != nil {
			return l.lookUnder(cur, a, now)
		}
		return a.fresh(now)
	}
	if a.share != nil || r.side != nil {
		l.setSide(r, a, now)
	}
	if a.looks() && (r.plan != a.plan || r.replaced()) {
		r = l.under(r, a.plan, a.offset, now)
	} else {
		l.arrive(r, a.plan, a.offset, now)
	}
	d := l.look(r, a.n, now)
	d.Degraded = a.degraded
	return d
}

// lookUnder tells what a take would answer for a key that is counted by a limit of another kind, and changes nothing.
func (l *Ledger) lookUnder(cur *record, a *ask, now moment) headgate.Decision {
	d := l.look(l.asReplaced(cur, a.key, a.plan, a.offset, now), a.n, now)
	d.Degraded = a.degraded
	return d
}

// turnedDown makes of a peek the answer to a check that takes nothing, as another one denied.
func (l *Ledger) turnedDown(a *ask, d *headgate.Decision, now moment) {
	sh := l.shardOf(&a.key)
	if r := sh.records[a.key]; r != nil && a.n > 0 {
		r.denied = r.denied || !d.Allowed
		l.touch(sh, r, now)
		l.asked(sh, r)
	}
	if d.Allowed && a.n > 0 {
		look := *a
		look.n = 0
		*d = l.peek(&look, now)
	}
}

// undo gives back what was taken a moment ago.
func (l *Ledger) undo(asks []ask, taken []headgate.Decision, now moment) {
	for i := range asks {
		if r := l.shardOf(&asks[i].key).records[asks[i].key]; r != nil && taken[i].Receipt.Units > 0 {
			l.give(r, r.plan, taken[i].Receipt.Units, taken[i].Receipt, now)
		}
	}
}
