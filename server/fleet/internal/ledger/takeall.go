package ledger

import (
	"cmp"
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/lookup"
)

// TakeAll takes the costs of all checks or of none. See [headgate.Limiter].
func (l *Ledger) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := l.checkOpen(ctx); err != nil {
		return dst, err
	}
	now := l.now()
	var buffer [8]request
	requests := buffer[:0]
	if len(checks) > len(buffer) {
		requests = make([]request, 0, len(checks))
	}
	var shardSet uint64 // shards, one bit each
	for i := range checks {
		req, err := l.prepare(&checks[i])
		if err != nil {
			return dst, err
		}
		shardSet |= 1 << (req.key[0] % shardCount)
		requests = append(requests, req)
	}
	if err := headgate.ValidateCombination(checks); err != nil {
		return dst, err
	}
	first := len(dst)
	dst, lookups, err := l.decideAll(requests, checks, shardSet, dst, now)
	if lookups == nil {
		return dst, err
	}
	if err := l.Await(ctx, lookups...); err != nil {
		return dst[:first], err
	}
	for i := range requests {
		requests[i].mayWait = false
	}
	dst, _, err = l.decideAll(requests, checks, shardSet, dst[:first], l.now())
	return dst, err
}

// decideAll decides all requests together. If some have to wait for lookups, it decides nothing and returns the
// lookups.
func (l *Ledger) decideAll(
	requests []request, checks []headgate.Check, shardSet uint64, dst []headgate.Decision, now moment,
) (_ []headgate.Decision, lookups []*lookup.Lookup, _ error) {
	// Locking in the order of shards avoids deadlocks.
	for i := range l.shards {
		if shardSet>>i&1 == 1 {
			l.shards[i].mu.Lock()
		}
	}
	defer func() {
		for i := range l.shards {
			if shardSet>>i&1 == 1 {
				l.shards[i].mu.Unlock()
			}
		}
	}()
	first := len(dst)
	allAllowed := true
	for i := range requests {
		req := &requests[i]
		d := l.peek(req, now)
		if req.allowance.Denied {
			d = l.unreachable.Deny(&checks[i], now.uptime)
		}
		allAllowed = allAllowed && d.Allowed && !req.allowance.Denied
		dst = append(dst, d)
	}
	if !allAllowed {
		for i := range requests {
			l.denyWithOthers(&requests[i], &dst[first+i], now)
		}
		return dst, nil, nil
	}
	for i := range requests {
		if wait := l.lookupFor(&requests[i], now); wait != nil {
			lookups = append(lookups, wait)
		}
		requests[i].mayWait = false
	}
	if lookups != nil {
		return dst[:first], lookups, nil
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
func (l *Ledger) lookupFor(req *request, now moment) *lookup.Lookup {
	sh := l.shardOf(&req.key)
	if r := sh.records[req.key]; r != nil {
		return l.checkLookup(sh, r, req, now)
	}
	return nil
}

// peek returns the decision that a take would return. The shard is locked.
func (l *Ledger) peek(req *request, now moment) headgate.Decision {
	sh := l.shardOf(&req.key)
	r := sh.records[req.key]
	if r != nil && (req.sharePlan != nil || r.extra.liveShare != nil) {
		l.setLiveShare(r, req, now)
	}
	switch {
	case r == nil:
		if r = sh.currentRecord(req.key, req.plan.Kind); r == nil {
			p := cmp.Or(req.sharePlan, req.plan)
			d := p.Decide(nil, now.clockOf(p, req.offset), req.units)
			d.Degraded = req.allowance.Degraded
			return d
		}
		r = l.asIfReplaced(r, req.key, req.plan, req.offset, now)
	case req.takesNothing() && r.limitReplaced():
		r = l.asIfReplaced(r.current(), req.key, req.plan, req.offset, now)
	case req.takesNothing() && r.plan != req.plan:
		r = r.clone() // a peek does not change the limit
		l.applyLimit(r, req.plan, req.offset, now)
	default:
		l.applyLimit(r, req.plan, req.offset, now)
	}
	d := r.peek(req.units, now)
	d.Degraded = req.allowance.Degraded
	return d
}

// denyWithOthers corrects the decision on a check when a check of the same call was denied, so that nothing is taken.
func (l *Ledger) denyWithOthers(req *request, d *headgate.Decision, now moment) {
	sh := l.shardOf(&req.key)
	if r := sh.records[req.key]; r != nil {
		if !d.Allowed {
			r.deny(req.units, now)
		}
		l.noteRequest(sh, r, now)
		l.queueLookup(sh, r)
	}
	if d.Allowed {
		state := *req
		state.units, state.peek = 0, true
		*d = l.peek(&state, now)
	}
}

// undo gives back units that were just taken.
func (l *Ledger) undo(requests []request, taken []headgate.Decision, now moment) {
	for i := range requests {
		if r := l.shardOf(&requests[i].key).records[requests[i].key]; r != nil && taken[i].Receipt.Units > 0 {
			r.giveBack(r.plan, taken[i].Receipt.Units, taken[i].Receipt, now)
		}
	}
}
