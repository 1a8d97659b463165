package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// Reset forgets what a client has consumed under a rule, by whatever limits it was counted, its penalty included. The rule's
// condition is not asked. It returns ErrNoRule if there is no rule of that id in force. A client that the rule does not
// count, because it lacks an attribute of the key, has nothing to forget. What other processes count for themselves stays:
// penalties, and limits that are local.
//
// Any other error says that some counters may have stayed.
func (e *Engine) Reset(ctx context.Context, rule string, s rules.Subject) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	m, ok := e.current.Load().MatchRule(rule, s)
	if !ok {
		return fmt.Errorf("%w: %s", ErrNoRule, rules.Quote(rule))
	}
	if m.Rule.Unlimited || m.Rule.Block || m.Effect == rules.Skipped || m.Effect == rules.Unidentified {
		return nil
	}
	var errs []error
	for _, n := range e.appendCounters(nil, &m, s) {
		if err := n.forget(ctx); err != nil {
			errs = append(errs, fmt.Errorf("engine: forget what was consumed under rule %s: %w", rule, err))
		}
	}
	return errors.Join(errs...)
}
