package engine

import (
	"context"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// DecideWithout is DecideTerms by what rules say for when a store cannot be asked (on_failure): stores in this process decide
// as ever, all others count as failed with the error why. It is for callers who could not even ask, because they had to wait
// for too long.
func (e *Engine) DecideWithout(ctx context.Context, s rules.Subject, t Terms, v *Verdict, why error) error {
	without := &Engine{config: e.config, stores: e.stores, sealer: e.sealer, registry: e.registry}
	without.stores.list = make([]store, len(e.stores.list))
	for i, known := range e.stores.list {
		if !known.borrows {
			known.Limiter = away{known.Limiter, why}
		}
		without.stores.list[i] = known
	}
	without.current.Store(e.current.Load())
	return without.DecideTerms(ctx, s, t, v)
}

// away is a store that is not asked.
type away struct {
	headgate.Limiter
	why error
}

func (a away) Take(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, a.why
}

func (a away) TakeAll(_ context.Context, _ []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	return dst, a.why
}

func (a away) Charge(context.Context, headgate.Check) (headgate.Decision, error) {
	return headgate.Decision{}, a.why
}

func (a away) Give(context.Context, headgate.Check, headgate.Receipt) error { return a.why }

func (a away) Renew(context.Context, headgate.Check, headgate.Receipt) (bool, error) {
	return false, a.why
}

func (a away) Reset(context.Context, headgate.Check) error { return a.why }
