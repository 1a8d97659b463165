package engine

import (
	"context"
	"sync"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// isShadow reports whether a rule has on_limit: shadow. It calls isSimple first, because a simple rule is never a
// shadow rule, and reading m.Rule is often a cache miss.
func isShadow(m *match.Result) bool { return !isSimple(m) && m.Rule.OnLimit.Action == rules.Shadow }

// isSimple reports whether a rule sets only a key, limits and a fixed cost, and all other fields have their defaults.
func isSimple(m *match.Result) bool {
	_, simple := m.Simple()
	return simple
}

// takeShadows takes the units of shadow rules, separately for each rule. It calls stores in this process directly, and
// other stores in goroutines, so that they add no latency to the decision. It returns the group of these goroutines, or
// nil. The caller waits for the group before it reads the decisions.
func (v *Verdict) takeShadows(ctx context.Context) (group *sync.WaitGroup) {
	for from, to := v.enforcedCount, 0; from < len(v.checks); from = to {
		to = v.ruleEnd(from)
		if v.store(from).borrowsKeys { // the store is in this process
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

// startShadow calls takeShadow in a goroutine of the group. It is a function of its own because its closure makes the
// captured variables escape: in takeShadows they would be allocated for every request.
func (v *Verdict) startShadow(ctx context.Context, from, to int, group *sync.WaitGroup) {
	group.Go(func() { v.takeShadow(ctx, from, to) })
}

// takeShadow takes the units of the checks from:to of one shadow rule. It writes only the elements from:to of slices of
// v, so that several calls can run concurrently.
func (v *Verdict) takeShadow(ctx context.Context, from, to int) {
	if _, err := v.takeFromStore(ctx, from, to); err != nil { // ctx has ended, and with it the request
		for i := from; i < to; i++ {
			v.decisions[i] = notChecked
		}
	}
}
