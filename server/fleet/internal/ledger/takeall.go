package ledger

import (
	"cmp"
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
		q, _, err := l.prepare(&checks[i])
		if err != nil {
			return dst, err
		}
		touched |= 1 << (q.key[0] % shards)
		requests = append(requests, q)
	}
	if err := headgate.ValidateAll(checks); err != nil {
		return dst, err
	}
	first := len(dst)
	dst, lookups, err := l.decideAll(requests, checks, touched, dst, now)
	if lookups == nil {
		return dst, err
	}
	if err := l.Await(ctx, lookups...); err != nil {
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
) (_ []headgate.Decision, lookups []*Lookup, _ error) {
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
		q := &requests[i]
		d := l.peek(q, now)
		if q.refused {
			d = l.denyUnreachable(&checks[i], now)
		}
		open = open && d.Allowed && !q.refused
		dst = append(dst, d)
	}
	for i := range requests {
		if q := &requests[i]; open {
			if lookup := l.lookupFor(q, now); lookup != nil {
				lookups = append(lookups, lookup)
			}
			q.mayWait = false
		}
	}
	switch {
	case lookups != nil:
		return dst[:first], lookups, nil
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
func (l *Ledger) lookupFor(q *request, now moment) *Lookup {
	sh := l.shardOf(&q.key)
	r := sh.records[q.key]
	if r == nil || !r.status.unlearned && r.at(now)-r.requestedAt <= l.lookups.maxAge {
		return nil
	}
	return l.checkLookup(sh, r, q, now)
}

// peek returns the decision that a take would return. The shard is locked.
func (l *Ledger) peek(q *request, now moment) headgate.Decision {
	sh := l.shardOf(&q.key)
	r := sh.records[q.key]
	if r != nil && (q.sharePlan != nil || r.optional.share != nil) {
		l.setShare(r, q, now)
	}
	switch {
	case r == nil:
		if r = sh.inForce(q.key, q.plan.Kind); r == nil {
			p := cmp.Or(q.sharePlan, q.plan)
			d := p.Decide(nil, now.at(p, q.offset), q.units)
			d.Degraded = q.degraded
			return d
		}
		r = l.asIfReplaced(r, q.key, q.plan, q.offset, now)
	case q.peeks() && r.replaced():
		r = l.asIfReplaced(r.current(), q.key, q.plan, q.offset, now)
	case q.peeks() && r.plan != q.plan:
		r = r.clone() // a peek does not change the limit
		l.update(r, q.plan, q.offset, now)
	default:
		l.update(r, q.plan, q.offset, now)
	}
	d := r.peek(q.units, now)
	d.Degraded = q.degraded
	return d
}

// denyWithOthers changes the decision on a check that takes nothing because another check was denied.
func (l *Ledger) denyWithOthers(q *request, d *headgate.Decision, now moment) {
	sh := l.shardOf(&q.key)
	if r := sh.records[q.key]; r != nil {
		r.status.denied = r.status.denied || !d.Allowed
		l.noteRequest(sh, r, now)
		l.queueLookup(sh, r)
	}
	if d.Allowed {
		state := *q
		state.units, state.peek = 0, true
		*d = l.peek(&state, now)
	}
}

// undo gives back units that were just taken.
func (l *Ledger) undo(requests []request, taken []headgate.Decision, now moment) {
	for i := range requests {
		if r := l.shardOf(&requests[i].key).records[requests[i].key]; r != nil && taken[i].Receipt.Units > 0 {
			r.give(r.plan, taken[i].Receipt.Units, taken[i].Receipt, now)
		}
	}
}
