package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// Reset resets the counters of a client under a rule, under any limits, including its penalty. The rule's condition is
// not evaluated. It returns ErrNoRule if no rule with that id is in force. A client that the rule does not count,
// because it lacks an attribute of the key, has no counters. Counters of other processes remain: penalties, and limits
// that are local.
//
// After any other error some counters may remain.
func (e *Engine) Reset(ctx context.Context, rule string, s rules.Subject) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	m, ok := e.current.Load().MatchRule(rule, s)
	if !ok {
		return fmt.Errorf("%w: %s", ErrNoRule, rules.Quote(rule))
	}
	if m.Rule.Unlimited || m.Rule.Block || m.Effect == match.Skipped || m.Effect == match.Unidentified {
		return nil
	}
	var errs []error
	for _, n := range e.appendCounters(nil, &m, s) {
		if err := n.reset(ctx); err != nil {
			errs = append(errs, fmt.Errorf("engine: reset the counters of rule %s: %w", rule, err))
		}
	}
	return errors.Join(errs...)
}
