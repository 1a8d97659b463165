package engine

import (
	"context"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// Terms are what a caller says of a decision besides who asks. The zero Terms are those of Decide.
type Terms struct {
	// Rule is the id of the one rule that decides; its condition is not asked. "" for all that match.
	Rule string
	// Cost is what the request costs in place of what the rules say, if HasCost. It stands as it is: no response header
	// changes it, and a cost above what a limit can ever have is denied. 0 peeks: nothing is taken or held, no denial is
	// counted, and Config.Observe is not told; the verdict says what remains. It is denied only where everything would be,
	// such as to a client that is blocked or in debt. Places under concurrency limits are taken as rules say, but by no peek.
	Cost    int64
	HasCost bool
	// Unheld tells that the caller reports Verdict.Delay to whoever asked instead of calling Wait. Such requests do not count
	// among Config.MaxWaiting.
	Unheld bool
}

// peeks tells that nothing is to be taken.
func (t *Terms) peeks() bool { return t.HasCost && t.Cost == 0 }

// of returns what a request costs under a rule.
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

// DecideTerms is Decide on the caller's terms, of which Decide and DecideRule are the usual ones. It returns ErrNoRule if
// there is no rule of that id, and a *headgate.InputError for a cost that cannot be.
func (e *Engine) DecideTerms(ctx context.Context, s rules.Subject, t Terms, v *Verdict) error {
	if err := t.validate(); err != nil {
		v.reset(e)
		return err
	}
	return e.decide(ctx, s, &t, v, false)
}
