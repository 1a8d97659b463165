package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

var errNoLocal = errors.New("engine: on_failure: local, but there is no Local store: allowed without a limit")

// applyPolicies decides the checks from:to, whose store failed with cause, by their failure policies. It reports
// whether they allow the request. If one check denies, the local store is not called for the others.
func (v *Verdict) applyPolicies(ctx context.Context, from, to int, cause error) (passes bool, err error) {
	e := v.engine
	e.report(cause)
	var local []int
	passes = true
	for i := from; i < to; i++ {
		c, d := &v.checks[i], &v.decisions[i]
		*d = headgate.Decision{Degraded: true, Limit: c.Limit.Capacity()}
		switch {
		case c.Cost > d.Limit:
			d.RetryAfter, passes = headgate.Never, false
		case c.OnFailure == headgate.Closed:
			d.RetryAfter, d.ResetAfter, passes = closedRetryAfter, closedRetryAfter, false
		default:
			d.Allowed, d.Remaining = true, d.Limit-c.Cost
			if c.OnFailure == headgate.Local {
				local = append(local, i)
			}
		}
	}
	if !passes || local == nil {
		return passes, nil
	}
	if v.infos[from].store == e.stores.local {
		e.report(errNoLocal)
		return true, nil
	}
	return v.takeLocally(ctx, local)
}

// closedRetryAfter is the RetryAfter of a denial by on_failure: closed. Nobody knows when the store will be reachable
// again, so the value is a guess.
const closedRetryAfter = time.Second

// takeLocally decides the checks with the given indexes by the local store, because their own store failed.
func (v *Verdict) takeLocally(ctx context.Context, indexes []int) (passes bool, err error) {
	e := v.engine
	checks := make([]headgate.Check, len(indexes))
	for j, i := range indexes {
		c := &v.checks[i]
		if c.Safe != nil {
			c.Limit = *c.Safe
			v.infos[i].extraCapacity = 0 // the safe limit is not extended
		}
		checks[j] = *c
	}
	ds, err := e.local().takeOrPeek(ctx, checks, make([]headgate.Decision, 0, len(checks)))
	if err == nil && len(ds) != len(checks) {
		err = errDecisionCount
	}
	if err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		e.report(fmt.Errorf("engine: take from the local store instead: allowed without a limit: %w", err))
		return true, nil
	}
	for j, i := range indexes {
		d := &v.decisions[i]
		*d = ds[j]
		d.Degraded = true
		if d.RetryAfter == headgate.Never { // never under the safe limit, but the rule's own limit may allow it later
			d.RetryAfter = closedRetryAfter
		}
		v.infos[i].store = e.stores.local
	}
	return headgate.Allowed(ds), nil
}
