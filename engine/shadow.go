package engine

import (
	"context"
	"sync"

	"github.com/headgate/headgate/rules"
)

// shadow tells whether a rule has no say.
func shadow(m *rules.Matched) bool { return !isSimple(m) && m.Rule.OnLimit.Action == rules.Shadow }

// isSimple tells whether nothing matters of a rule but its key and limits.
func isSimple(m *rules.Matched) bool {
	_, simple := m.Simple()
	return simple
}

// takeShadows takes for shadow rules, for each on its own: what one says changes nothing for the others. Stores in this
// process are asked at once; others while the request is decided, so that they take no time of their own. It returns what
// is to be waited for before their decisions are read, nil if nothing is.
func (v *Verdict) takeShadows(ctx context.Context) (under *sync.WaitGroup) {
	for from, to := v.binding, 0; from < len(v.checks); from = to {
		to = v.ruleEnd(from)
		if v.engine.stores.list[v.asked[from].store].borrows {
			v.takeShadow(ctx, from, to)
			continue
		}
		if under == nil {
			under = new(sync.WaitGroup)
		}
		v.takeShadowMeanwhile(ctx, from, to, under)
	}
	return under
}

func (v *Verdict) takeShadowMeanwhile(ctx context.Context, from, to int, under *sync.WaitGroup) {
	under.Go(func() { v.takeShadow(ctx, from, to) })
}

// takeShadow takes for the checks of one shadow rule. It touches nothing but what is theirs.
func (v *Verdict) takeShadow(ctx context.Context, from, to int) {
	if _, err := v.ask(ctx, from, to); err != nil { // ctx has ended, and with it the request
		for i := from; i < to; i++ {
			v.decisions[i] = notAsked
		}
	}
}
