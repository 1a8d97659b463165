package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// take lets the stores decide all checks, and sets the verdict.
func (v *Verdict) take(ctx context.Context, o *DecideOptions) error {
	n := len(v.checks)
	v.decisions = slices.Grow(v.decisions, n)[:n]
	shadows := v.takeShadows(ctx)
	passes, err := v.takeAll(ctx)
	if shadows != nil {
		shadows.Wait()
	}
	return v.concludeTake(ctx, o, passes, err)
}

// takeSimple is like take, but faster: for checks of one store, without shadow rules and delays. Usually all of them
// allow the request, and nothing else has to be done.
func (v *Verdict) takeSimple(ctx context.Context, o *DecideOptions, store int8) error {
	n := len(v.checks)
	if n == 0 || n > headgate.MaxChecks {
		return v.take(ctx, o)
	}
	v.decisions = slices.Grow(v.decisions, n)[:n]
	ds, err := v.engine.stores.list[store].takeOrPeek(ctx, v.checks, v.decisions[:0])
	inPlace := err == nil && len(ds) == n && &ds[0] == &v.decisions[0]
	if inPlace && v.concludeAllowed() {
		return nil
	}
	passes, err := v.recordDecisions(ctx, 0, n, ds, err)
	return v.concludeTake(ctx, o, passes, err)
}

// takeAll takes the units of all checks except those of shadow rules, or takes nothing. It calls each store once for
// every headgate.MaxChecks of its checks, and refunds the units of earlier calls if a later one denies. Usually there
// is one call.
func (v *Verdict) takeAll(ctx context.Context) (passes bool, err error) {
	for from, to := 0, 0; from < v.enforcedCount; from = to {
		store := v.infos[from].store
		to = from + 1
		for to < v.enforcedCount && v.infos[to].store == store && to-from < headgate.MaxChecks {
			to++
		}
		passes, err := v.takeFromStore(ctx, from, to)
		if passes && err == nil {
			continue
		}
		if from > 0 {
			v.refundChecks(ctx, 0, from)
		}
		for i := to; i < v.enforcedCount; i++ {
			v.decisions[i] = notChecked
		}
		return false, err
	}
	return true, nil
}

// notChecked is the decision of a check that no store has decided: [headgate.Limiter.TakeAll] returns the same one.
var notChecked = headgate.Decision{Allowed: true}

// errDecisionCount is the error of a store that violates the contract of headgate.Limiter.
var errDecisionCount = errors.New("not as many decisions as checks")

// takeFromStore takes the units of the checks from:to, which are of one store. If it fails, policies decide.
func (v *Verdict) takeFromStore(ctx context.Context, from, to int) (passes bool, err error) {
	dst := v.decisions[from:from:to]
	ds, err := v.store(from).takeOrPeek(ctx, v.checks[from:to], dst)
	return v.recordDecisions(ctx, from, to, ds, err)
}

// takeOrPeek takes the units of all checks or of none. If the costs are 0, it calls Peek for each check instead. The
// caller's cost replaces the costs of all checks, so they are all 0 or none is.
func (s *store) takeOrPeek(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if checks[0].Cost > 0 {
		return s.TakeAll(ctx, checks, dst)
	}
	for i := range checks {
		d, err := s.Peek(ctx, checks[i])
		if err != nil {
			return dst, err
		}
		dst = append(dst, d)
	}
	return dst, nil
}

// recordDecisions records the decisions ds of a store on the checks from:to. If the store failed, with err, policies
// decide.
func (v *Verdict) recordDecisions(
	ctx context.Context, from, to int, ds []headgate.Decision, err error,
) (passes bool, _ error) {
	if err == nil && len(ds) != to-from {
		err = errDecisionCount
	}
	if err == nil {
		if &ds[0] != &v.decisions[from] {
			copy(v.decisions[from:to], ds)
		}
		return headgate.Allowed(ds), nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	if errors.Is(err, headgate.ErrOverloaded) {
		return false, headgate.ErrOverloaded
	}
	err = fmt.Errorf("engine: take from the %s store: %w", v.engine.storeName(v.infos[from].store), err)
	return v.applyPolicies(ctx, from, to, err)
}

// storeName returns the name of a store in errors: a consistency that it serves.
func (e *Engine) storeName(store int8) string {
	for scope := range e.stores.byMode {
		modes := &e.stores.byMode[scope]
		for mode := len(modes) - 1; mode > 0; mode-- {
			if modes[mode] != store {
				continue
			}
			if scope == int(rules.ScopeGlobal) {
				return "global " + rules.Consistency(mode).String()
			}
			return rules.Consistency(mode).String()
		}
	}
	return "unknown"
}

// refundChecks refunds the checks from:to, because the request is denied.
func (v *Verdict) refundChecks(ctx context.Context, from, to int) {
	ctx, end := v.cleanupContext(ctx, from, to)
	defer end()
	for i := from; i < to; i++ {
		if err := v.refundAll(ctx, i); err != nil {
			v.engine.report(err)
		}
	}
}

// refundAll refunds everything that was taken for a check.
func (v *Verdict) refundAll(ctx context.Context, i int) error {
	d := &v.decisions[i]
	units := d.Receipt.Units
	if units == 0 {
		return nil
	}
	err := v.refund(ctx, i, units)
	d.Remaining += units
	d.Receipt, d.Delay = headgate.Receipt{}, 0
	return err
}

// refund refunds units that were taken for a check.
func (v *Verdict) refund(ctx context.Context, i int, units int64) error {
	c := v.checks[i]
	c.Cost = units
	if err := v.store(i).Give(ctx, c, v.decisions[i].Receipt.Delayed(v.infos[i].wait)); err != nil {
		return fmt.Errorf("engine: refund %d units of rule %s: %w", units, v.rule(i).ID, err)
	}
	return nil
}

// releaseSlots releases the slots that the checks from:to hold under concurrency limits.
func (v *Verdict) releaseSlots(ctx context.Context, from, to int) {
	for i := from; i < to; i++ {
		if v.checks[i].Limit.Algorithm == headgate.Concurrency && v.decisions[i].Receipt.Units > 0 {
			v.refundChecks(ctx, i, i+1)
		}
	}
}

// followUpTimeout is the time that stores have for refunds, charges and renewals after a decision.
const followUpTimeout = time.Second

// cleanupContext returns the context for refunds and charges of the checks from:to, which must be done even if ctx has
// ended.
func (v *Verdict) cleanupContext(ctx context.Context, from, to int) (context.Context, context.CancelFunc) {
	for i := from; i < to; i++ {
		if !v.store(i).borrowsKeys {
			return context.WithTimeout(context.WithoutCancel(ctx), followUpTimeout)
		}
	}
	return context.Background(), func() {}
}
