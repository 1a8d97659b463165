package engine

import (
	"context"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// DecideOptions are the options of one decision. With the zero value, DecideWith decides like Decide.
type DecideOptions struct {
	// Rule is the id of the only rule to apply. Its condition is not evaluated. Default "": all rules that match.
	Rule string
	// Cost replaces the costs of the rules if HasCost is set. It is final: no response header changes it, and a cost
	// above a limit's capacity is denied. It does not change the number of slots that concurrency limits take.
	//
	// A decision with a cost of 0 is called a peek. It reports how many units remain, and takes no units and no slots. It
	// is not delayed or counted as a denial, and Config.Observe is not called. A peek is denied only if a request of any
	// cost would be denied, for example because the client is blocked or in debt.
	Cost    int64
	HasCost bool
	// NoWait is set by callers that report Verdict.Delay to their clients instead of calling Wait. Their requests do not
	// count towards Config.MaxWaiting.
	NoWait bool

	skipSlots bool // set by DecideMore: concurrency limits are not checked
}

// peeks reports whether the decision is a peek: see Cost.
func (o *DecideOptions) peeks() bool { return o.HasCost && o.Cost == 0 }

// costOf returns the cost of a request under a rule.
func (o *DecideOptions) costOf(r *rules.Rule, s rules.Subject) int64 {
	if o.HasCost {
		return o.Cost
	}
	return r.Cost.Initial(s)
}

func (o *DecideOptions) validate() error {
	if o.HasCost && (o.Cost < 0 || o.Cost > headgate.MaxCount) {
		return &headgate.InputError{
			Err: headgate.ErrInvalidCheck, Field: "Cost", Value: strconv.FormatInt(o.Cost, 10),
			Want: "0 to " + strconv.FormatInt(headgate.MaxCount, 10),
		}
	}
	return nil
}

// DecideWith is like Decide, with the options o. It returns ErrNoRule if no rule has the id o.Rule, and a
// *headgate.InputError if o.Cost is invalid.
func (e *Engine) DecideWith(ctx context.Context, s rules.Subject, o DecideOptions, v *Verdict) error {
	if err := o.validate(); err != nil {
		v.reset(e)
		return err
	}
	return e.decide(ctx, s, &o, v)
}
