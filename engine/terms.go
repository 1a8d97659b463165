package engine

import (
	"context"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// Terms are a caller's options for a decision. The zero Terms are those of Decide.
type Terms struct {
	// Rule is the id of the only rule that decides, without evaluating its condition. "" for all that match.
	Rule string
	// Cost replaces the rules' costs, if HasCost. It is final: no response header changes it, and a cost above a
	// limit's capacity is denied. 0 only peeks: nothing is taken or delayed, no denial is counted, and Config.Observe
	// is not called; the verdict reports what remains. It is denied only where every request would be, such as for a
	// client that is blocked or in debt. Slots of concurrency limits are taken as rules say, but not by a peek.
	Cost    int64
	HasCost bool
	// Unheld says that the caller reports Verdict.Delay to its client instead of calling Wait. Such requests do not
	// count towards Config.MaxWaiting.
	Unheld bool
}

// peeks reports whether nothing is to be taken.
func (t *Terms) peeks() bool { return t.HasCost && t.Cost == 0 }

// of returns the cost of a request under a rule.
func (t *Terms) of(r *rules.Rule, s rules.Subject) int64 {
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

// DecideTerms is Decide with options. It returns ErrNoRule if there is no rule with that id, and a *headgate.InputError
// for an invalid cost.
func (e *Engine) DecideTerms(ctx context.Context, s rules.Subject, t Terms, v *Verdict) error {
	if err := t.validate(); err != nil {
		v.reset(e)
		return err
	}
	return e.decide(ctx, s, &t, v, false)
}
