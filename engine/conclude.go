package engine

import (
	"context"
	"errors"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// concludeAllowed sets the verdict if the stores have allowed all checks and no policy has replaced a store. Otherwise
// it returns false and changes nothing.
func (v *Verdict) concludeAllowed() bool {
	tightest := &v.decisions[0]
	check := 0
	for i := range v.decisions {
		d := &v.decisions[i]
		if !d.Allowed || d.Degraded || d.Limit == 0 { // Limit is 0 if no store has decided the check
			return false
		}
		if d.Remaining < tightest.Remaining {
			tightest, check = d, i
		}
	}
	v.Rule, v.Decision, v.holdsUnits = v.rule(check), *tightest, true
	return true
}

// concludeTake sets the verdict after the checks were decided. passes and err are the results of takeAll.
func (v *Verdict) concludeTake(ctx context.Context, o *DecideOptions, passes bool, err error) error {
	n := len(v.checks)
	if v.enforcedCount < n {
		if !o.peeks() {
			v.handleDenials(ctx, v.enforcedCount, n)
		}
		if err != nil || !passes {
			v.releaseSlots(ctx, v.enforcedCount, n) // a denied request holds no slot, not even of a shadow rule
		}
	}
	if err != nil {
		return v.denyOverloaded(err)
	}
	if !passes && !o.peeks() {
		v.handleDenials(ctx, 0, v.enforcedCount)
	}
	if v.mayDelay {
		v.setDelays()
	}
	check, wait := v.conclude(passes)
	v.holdsUnits = passes
	if wait > 0 && !o.NoWait && !v.startWaiting() {
		v.rejectFull(ctx, check)
	}
	return nil
}

// denyOverloaded denies a request that a store did not decide because it is overloaded. It returns any other error.
func (v *Verdict) denyOverloaded(err error) error {
	if !errors.Is(err, headgate.ErrOverloaded) {
		return err
	}
	for i := range v.decisions[:v.enforcedCount] {
		v.decisions[i] = notChecked
	}
	v.rejectOverloaded(v.rule(0)) // any rule would do, because none was decided
	v.needsSettle, v.readsResponse = false, false
	return nil
}

func (v *Verdict) rejectOverloaded(r *rules.Rule) {
	v.Rule = r
	v.Action, v.Reason, v.Status, v.RetryAfter = Reject, Overloaded, statusUnavailable, overloadedRetryAfter
}

// rejectIfBusy rejects the request if a rule limits it and this process is too busy. It reports whether it did.
func (v *Verdict) rejectIfBusy(o *DecideOptions) bool {
	tooBusy := v.engine.config.TooBusy
	if tooBusy == nil || o.peeks() || !tooBusy() {
		return false
	}
	for i := range v.matched {
		if m := &v.matched[i]; m.Effect == match.Limited && !isShadow(m) {
			v.rejectOverloaded(m.Rule)
			return true
		}
	}
	return false
}

// overloadedRetryAfter is the RetryAfter of requests that are denied because a store or this process is overloaded.
// Nobody knows when the overload ends, so the value is a guess.
const overloadedRetryAfter = time.Second

// conclude sets the verdict from the decisions. It returns the index of the check that determines the verdict, or -1,
// and how long this check delays the request.
func (v *Verdict) conclude(passes bool) (check int, wait time.Duration) {
	check = -1
	for i := range v.decisions[:v.enforcedCount] {
		d := &v.decisions[i]
		if d.Limit == 0 {
			continue // no store has decided the check
		}
		v.Degraded = v.Degraded || d.Degraded
		if delay := v.infos[i].wait; passes && delay > wait {
			wait, check = delay, i
		} else if check < 0 || wait == 0 && d.TighterThan(&v.decisions[check]) {
			check = i
		}
	}
	if check < 0 {
		return check, 0 // no check that can deny was decided
	}
	v.Rule, v.Decision = v.rule(check), v.decisions[check]
	switch {
	case !passes:
		v.denyByCheck(check)
	case wait > 0:
		v.Action, v.Delay = Delay, wait
	}
	return check, wait
}

// denyByCheck denies a request because of a check.
func (v *Verdict) denyByCheck(check int) {
	r, d := v.Rule, &v.Decision
	v.Action, v.Reason, v.Status, v.RetryAfter = Reject, OverLimit, r.Status, d.RetryAfter
	v.needsSettle, v.readsResponse = false, false
	switch {
	case d.Degraded && r.OnFailure == headgate.Closed && d.RetryAfter != headgate.Never:
		v.Reason, v.Status = StoreFailed, statusUnavailable
	case r.OnLimit.Action == rules.Drop:
		v.Action = Drop
	case v.infos[check].queueFull && d.RetryAfter <= r.OnLimit.MaxWait:
		v.Reason = QueueFull // without the other waiting requests, this one would have been delayed
	}
}
