package engine

import (
	"context"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// Terms are a caller's options for a decision. The zero Terms are those of Decide.
type Terms struct {
	// Rule is the id of the only rule to apply, whether its condition matches or not. Default "": all rules that match.
	Rule string
	// Cost replaces the costs of the rules if HasCost is set. It is final: no response header changes it, and a cost
	// above a limit's capacity is denied. It does not change the number of slots that concurrency limits take.
	//
	// A cost of 0 is a peek: it reports what remains, and takes no units and no slots. It is not delayed or counted as a
	// denial, and Config.Observe is not called. A peek is denied only if a request of any cost would be denied, for
	// example because the client is blocked or in debt.
	Cost    int64
	HasCost bool
	// NoWait is set by callers that report Verdict.Delay to their clients instead of calling Wait. Their requests do not
	// count towards Config.MaxWaiting.
	NoWait bool
}

// peeks reports whether the decision is a peek: see Cost.
func (t *Terms) peeks() bool { return t.HasCost && t.Cost == 0 }

// costOf returns the cost of a request under a rule.
func (t *Terms) costOf(r *rules.Rule, s rules.Subject) int64 {
	if t.HasCost {
		return t.Cost
	}
	return r.Cost.Reserve(s)
}

func (t *Terms) validate() error {
	if t.HasCost && (t.Cost < 0 || t.Cost > headgate.MaxCount) {
		return &headgate.InputError{
			Err: headgate.ErrInvalidCheck, Field: "Cost", Value: strconv.FormatInt(t.Cost, 10),
			Want: "0 to " + strconv.FormatInt(headgate.MaxCount, 10),
		}
	}
	return nil
}

// DecideTerms is like Decide, with the options t. It returns ErrNoRule if no rule has the id t.Rule, and a
// *headgate.InputError if t.Cost is invalid.
func (e *Engine) DecideTerms(ctx context.Context, s rules.Subject, t Terms, v *Verdict) error {
	if err := t.validate(); err != nil {
		v.reset(e)
		return err
	}
	return e.decide(ctx, s, &t, v, false)
}
