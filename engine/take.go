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

// take takes the units of all checks from their stores, and sets the verdict.
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

// takeSimple is a faster take for the common case: all checks belong to one store, and no rule is a shadow rule or
// delays requests. If the store allows all checks, takeSimple does nothing more.
func (v *Verdict) takeSimple(ctx context.Context, o *DecideOptions, store int8) error {
	n := len(v.checks)
	if n == 0 || n > headgate.MaxChecks {
		return v.take(ctx, o)
	}
	v.decisions = slices.Grow(v.decisions, n)[:n]
	decisions, err := v.engine.stores.list[store].takeOrPeek(ctx, v.checks, v.decisions[:0])
	writtenInPlace := err == nil && len(decisions) == n && &decisions[0] == &v.decisions[0]
	if writtenInPlace && v.concludeAllowed() {
		return nil
	}
	passes, err := v.recordDecisions(ctx, 0, n, decisions, err)
	return v.concludeTake(ctx, o, passes, err)
}

// takeAll takes the units of all checks that can deny, or takes nothing. It calls each store for at most
// headgate.MaxChecks checks at a time. If a call denies, takeAll refunds the units of earlier calls. Usually there is
// one call.
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

// notChecked is the decision of a check that no store has decided. Its Limit is 0. [headgate.Limiter.TakeAll] returns
// such decisions, too.
var notChecked = headgate.Decision{Allowed: true}

// errDecisionCount is the error for a store that violates the contract of headgate.Limiter.
var errDecisionCount = errors.New("not as many decisions as checks")

// takeFromStore takes the units of the checks from:to, which belong to one store. If the store fails, policies decide.
func (v *Verdict) takeFromStore(ctx context.Context, from, to int) (passes bool, err error) {
	dst := v.decisions[from:from:to] // the store appends its decisions in place
	decisions, err := v.store(from).takeOrPeek(ctx, v.checks[from:to], dst)
	return v.recordDecisions(ctx, from, to, decisions, err)
}

// takeOrPeek takes the units of all checks or of none. If the costs are 0, it calls Peek for each check instead. It
// needs to look only at the first cost: DecideOptions.Cost applies to all checks, so either all costs are 0 or none is.
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

// recordDecisions stores a store's decisions about the checks from:to in v.decisions. If err is set, the store has
// failed, and policies decide.
func (v *Verdict) recordDecisions(
	ctx context.Context, from, to int, decisions []headgate.Decision, err error,
) (passes bool, _ error) {
	if err == nil && len(decisions) != to-from {
		err = errDecisionCount
	}
	if err == nil {
		if &decisions[0] != &v.decisions[from] { // the store has not written them in place
			copy(v.decisions[from:to], decisions)
		}
		return headgate.Allowed(decisions), nil
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

// storeName returns a name of a store for error messages: one of the consistencies that it serves.
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

// refundChecks refunds the units of the checks from:to, because the request is denied. It reports errors to
// Config.OnError.
func (v *Verdict) refundChecks(ctx context.Context, from, to int) {
	ctx, cancel := v.cleanupContext(ctx, from, to)
	defer cancel()
	for i := from; i < to; i++ {
		if err := v.refundAll(ctx, i); err != nil {
			v.engine.report(err)
		}
	}
}

// refundAll refunds all units that were taken for a check.
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

// refund refunds some of the units that were taken for a check.
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
		if v.holdsSlot(i) {
			v.refundChecks(ctx, i, i+1)
		}
	}
}

// followUpTimeout is the time that stores have for refunds, charges and renewals after a decision.
const followUpTimeout = time.Second

// cleanupContext returns the context for refunds and charges of the checks from:to, which must be done even if ctx has
// ended. It has a timeout unless all their stores are in this process.
func (v *Verdict) cleanupContext(ctx context.Context, from, to int) (context.Context, context.CancelFunc) {
	for i := from; i < to; i++ {
		if !v.store(i).borrowsKeys {
			return context.WithTimeout(context.WithoutCancel(ctx), followUpTimeout)
		}
	}
	return context.Background(), func() {}
}
