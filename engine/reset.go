package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// Reset resets all counters of a client under a rule: those of the rule's limits, its overrides, its penalty and the
// registered client's own limits. It does not evaluate the rule's condition. If the client lacks an attribute of the
// rule's key, it has no counters, and Reset does nothing. Counters in other processes remain: those of penalties and of
// rules with consistency: local.
//
// Reset returns ErrNoRule if there is no rule with that id. After any other error some counters may remain.
func (e *Engine) Reset(ctx context.Context, ruleID string, s rules.Subject) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	m, ok := e.current.Load().MatchRule(ruleID, s)
	if !ok {
		return fmt.Errorf("%w: %s", ErrNoRule, rules.Quote(ruleID))
	}
	if m.Rule.Unlimited || m.Rule.Block || m.Effect == match.Skipped || m.Effect == match.Unidentified {
		return nil
	}
	var errs []error
	for _, c := range e.appendCounters(nil, &m, s) {
		if err := c.reset(ctx); err != nil {
			errs = append(errs, fmt.Errorf("engine: reset the counters of rule %s: %w", ruleID, err))
		}
	}
	return errors.Join(errs...)
}
