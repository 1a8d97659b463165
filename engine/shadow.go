package engine

import (
	"context"
	"sync"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// isShadow reports whether a rule has on_limit: shadow.
func isShadow(m *match.Result) bool { return !isSimple(m) && m.Rule.OnLimit.Action == rules.Shadow }

// isSimple reports whether only the key and the limits of a rule matter.
func isSimple(m *match.Result) bool {
	_, simple := m.Simple()
	return simple
}

// takeShadows takes for shadow rules, for each separately. It calls stores in this process at once and others
// concurrently with the decision, so that they add no latency. It returns the group to wait for before their decisions
// are read, nil if there is none.
func (v *Verdict) takeShadows(ctx context.Context) (group *sync.WaitGroup) {
	for from, to := v.enforced, 0; from < len(v.checks); from = to {
		to = v.ruleEnd(from)
		if v.store(from).borrowsKeys {
			v.takeShadow(ctx, from, to)
			continue
		}
		if group == nil {
			group = new(sync.WaitGroup)
		}
		v.startShadow(ctx, from, to, group)
	}
	return group
}

// startShadow is separate from takeShadows so that the variables of the goroutine are allocated only if there is one.
func (v *Verdict) startShadow(ctx context.Context, from, to int, group *sync.WaitGroup) {
	group.Go(func() { v.takeShadow(ctx, from, to) })
}

// takeShadow takes for the checks of one shadow rule. It touches only their decisions.
func (v *Verdict) takeShadow(ctx context.Context, from, to int) {
	if _, err := v.takeFromStore(ctx, from, to); err != nil { // ctx has ended, and with it the request
		for i := from; i < to; i++ {
			v.decisions[i] = notChecked
		}
	}
}
