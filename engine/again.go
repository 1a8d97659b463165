package engine

import (
	"context"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// DecideAgain decides another request of which the caller knows that everything about it that rules can look at is as it was for
// the one that v was last used for: then it comes under the same limits, and there is nothing to match. It says and takes
// what Decide would.
//
// It is false, with nothing done, if it is not that simple: the rules have changed since, clients are registered, or a rule does
// more than to count. Then Decide must be asked.
func (e *Engine) DecideAgain(ctx context.Context, v *Verdict) (ok bool, err error) {
	if !v.repeats || v.engine != e || v.set != e.current.Load() || !v.set.Lasting() || ctx == nil {
		return false, nil
	}
	start := e.begin()
	v.Action, v.Reason, v.Degraded, v.Rule, v.Status = Allow, None, false, nil, 0
	v.Decision, v.RetryAfter, v.Delay, v.Took = headgate.Decision{}, 0, 0, 0
	v.decisions, v.applied, v.outcomes, v.holds = v.decisions[:0], v.applied[:0], v.outcomes[:0], false
	if err := v.takeSimple(ctx, &Terms{}, e.stores.byMode[rules.ScopeRegion][rules.ByStore]); err != nil {
		v.reset(e)
		return true, err
	}
	v.observe(start)
	return true, nil
}

// Repeats tells whether DecideAgain may be asked about requests like the one that v was used for.
func (v *Verdict) Repeats() bool { return v.repeats && v.Small() }

// Small tells whether v takes so little memory that one can be kept for each of many clients. What it has room for is what the
// requests have come under that it was used for.
func (v *Verdict) Small() bool {
	size := cap(v.matched)*int(unsafe.Sizeof(rules.Matched{})) + cap(v.checks)*int(unsafe.Sizeof(headgate.Check{})) +
		cap(v.asked)*int(unsafe.Sizeof(asked{})) + cap(v.decisions)*int(unsafe.Sizeof(headgate.Decision{})) + cap(v.keys) +
		cap(v.applied)*int(unsafe.Sizeof(Applied{})) + cap(v.outcomes)*int(unsafe.Sizeof(Outcome{}))
	return size <= small
}

// small is how many bytes are little: those of about a dozen limits.
const small = 8 << 10
