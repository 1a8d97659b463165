package engine

import (
	"context"
	"sync"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// isShadow reports whether a rule has on_limit: shadow. A simple rule never has it, so its Rule is not read: reading it
// would often be a cache miss.
func isShadow(m *match.Result) bool { return !isSimple(m) && m.Rule.OnLimit.Action == rules.Shadow }

// isSimple reports whether everything but the key, the limits and the fixed cost of a rule is at its default: see
// match.Result.Simple.
func isSimple(m *match.Result) bool {
	_, simple := m.Simple()
	return simple
}

// takeShadows takes the units of shadow rules, separately for each rule. It calls stores in this process before it
// returns. It calls other stores in goroutines, concurrently with the decision, so that they add no latency. It returns
// the group of these goroutines, or nil. The caller waits for the group before it reads the decisions.
func (v *Verdict) takeShadows(ctx context.Context) (group *sync.WaitGroup) {
	for from, to := v.enforcedCount, 0; from < len(v.checks); from = to {
		to = v.ruleEnd(from)
		if v.store(from).borrowsKeys { // only stores in this process do
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

// startShadow calls takeShadow in a goroutine of the group. It is separate from takeShadows, where the captured
// variables would be allocated even without a goroutine.
func (v *Verdict) startShadow(ctx context.Context, from, to int, group *sync.WaitGroup) {
	group.Go(func() { v.takeShadow(ctx, from, to) })
}

// takeShadow takes the units of the checks from:to of one shadow rule. It writes only the elements from:to of slices of
// v, so that it can run concurrently with others.
func (v *Verdict) takeShadow(ctx context.Context, from, to int) {
	if _, err := v.takeFromStore(ctx, from, to); err != nil { // ctx has ended, and with it the request
		for i := from; i < to; i++ {
			v.decisions[i] = notChecked
		}
	}
}
