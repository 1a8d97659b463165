package ledger

import (
	"context"

	"github.com/headgate/headgate"
)

// TakeAll decides several checks as one. See [headgate.Limiter].
func (l *Ledger) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := l.admit(ctx); err != nil {
		return dst, err
	}
	now := l.now()
	var room [8]request
	requests := room[:0]
	if len(checks) > len(room) {
		requests = make([]request, 0, len(checks))
	}
	var touched uint64 // shards, one bit each
	for i := range checks {
		a, _, err := l.prepare(&checks[i])
		if err != nil {
			return dst, err
		}
		touched |= 1 << (a.key[0] % shards)
		requests = append(requests, a)
	}
	if err := headgate.ValidateAll(checks); err != nil {
		return dst, err
	}
	first := len(dst)
	dst, waits, err := l.decideAll(requests, checks, touched, dst, now)
	if waits == nil {
		return dst, err
	}
	if err := l.Await(ctx, waits...); err != nil {
		return dst[:first], err
	}
	for i := range requests {
		requests[i].mayWait = false
	}
	dst, _, err = l.decideAll(requests, checks, touched, dst[:first], l.now())
	return dst, err
}

// decideAll decides all requests or none, or returns the lookups to wait for.
func (l *Ledger) decideAll(
	requests []request, checks []headgate.Check, touched uint64, dst []headgate.Decision, now moment,
) (_ []headgate.Decision, waits []*Lookup, _ error) {
	// Locking in the order of shards avoids deadlocks.
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
	for i := range requests {
		a := &requests[i]
		d := l.peek(a, now)
		if a.refused {
			d = l.denyUnreachable(&checks[i], now)
		}
		open = open && d.Allowed && !a.refused
		dst = append(dst, d)
	}
	for i := range requests {
		if a := &requests[i]; open {
			if wait := l.lookupFor(a, now); wait != nil {
				waits = append(waits, wait)
			}
			a.mayWait = false
		}
	}
	switch {
	case waits != nil:
		return dst[:first], waits, nil
	case !open:
		for i := range requests {
			l.denyWithOthers(&requests[i], &dst[first+i], now)
		}
		return dst, nil, nil
	}
	for i := range requests {
		if _, err := l.take(l.shardOf(&requests[i].key), &requests[i], now, &dst[first+i]); err != nil {
			l.undo(requests[:i], dst[first:first+i], now)
			return dst[:first], nil, err
		}
	}
	return dst, nil, nil
}

// lookupFor returns the lookup that a request has to wait for; see checkLookup. The shard is locked.
func (l *Ledger) lookupFor(a *request, now moment) *Lookup {
	sh := l.shardOf(&a.key)
	r := sh.records[a.key]
	if r == nil || !r.status.unlearned && r.at(now)-r.requestedAt <= l.lookups.maxAge {
		return nil
	}
	return l.checkLookup(sh, r, a, now)
}

// peek returns the decision that a take would return.
func (l *Ledger) peek(a *request, now moment) headgate.Decision {
	sh := l.shardOf(&a.key)
	r := sh.records[a.key]
	if r == nil {
		if cur := sh.inForce(a.key, a.plan.Kind); cur != nil {
			return l.peekReplaced(cur, a, now)
		}
		return a.decideNew(now)
	}
	if a.sharePlan != nil || r.optional.share != nil {
		l.setShare(r, a, now)
	}
	if a.peeks() && (r.plan != a.plan || r.replaced()) {
		r = l.withPlan(r, a.plan, a.offset, now)
	} else {
		l.update(r, a.plan, a.offset, now)
	}
	d := l.peekRecord(r, a.units, now)
	d.Degraded = a.degraded
	return d
}

// peekReplaced is peek for a key that is counted under a limit of another kind.
func (l *Ledger) peekReplaced(cur *record, a *request, now moment) headgate.Decision {
	d := l.peekRecord(l.asReplaced(cur, a.key, a.plan, a.offset, now), a.units, now)
	d.Degraded = a.degraded
	return d
}

// denyWithOthers changes the decision on a check that takes nothing because another check was denied.
func (l *Ledger) denyWithOthers(a *request, d *headgate.Decision, now moment) {
	sh := l.shardOf(&a.key)
	if r := sh.records[a.key]; r != nil {
		r.status.denied = r.status.denied || !d.Allowed
		l.noteRequest(sh, r, now)
		l.queueLookup(sh, r)
	}
	if d.Allowed {
		look := *a
		look.units, look.peek = 0, true
		*d = l.peek(&look, now)
	}
}

// undo gives back units that were just taken.
func (l *Ledger) undo(requests []request, taken []headgate.Decision, now moment) {
	for i := range requests {
		if r := l.shardOf(&requests[i].key).records[requests[i].key]; r != nil && taken[i].Receipt.Units > 0 {
			l.give(r, r.plan, taken[i].Receipt.Units, taken[i].Receipt, now)
		}
	}
}
