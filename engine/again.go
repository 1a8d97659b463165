package engine

import (
	"context"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// DecideAgain decides another request whose attributes, as far as rules use them, equal those of the request that v was
// last used for. The same limits apply then, and nothing is matched. The result is that of Decide.
//
// It returns false, without deciding, if that is not possible: the rules have changed, clients are registered, or a
// rule does more than count. Then call Decide.
func (e *Engine) DecideAgain(ctx context.Context, v *Verdict) (ok bool, err error) {
	if !v.repeats || v.engine != e || v.set != e.current.Load() || !v.set.Lasting() || ctx == nil {
		return false, nil
	}
	start := e.begin()
	v.Action, v.Reason, v.Degraded, v.Rule, v.Status = Allow, None, false, nil, 0
	v.Decision, v.RetryAfter, v.Delay, v.Took = headgate.Decision{}, 0, 0, 0
	v.decisions, v.applied, v.outcomes, v.holds = v.decisions[:0], v.applied[:0], v.outcomes[:0], false
	if err := v.takeSimple(ctx, &Terms{}, e.stores.byMode[rules.ScopeRegion][rules.ByStore]); err != nil {
		v.reset(e)
		return true, err
	}
	v.observe(start)
	return true, nil
}

// Repeats reports whether DecideAgain may be called for requests like the one that v was used for.
func (v *Verdict) Repeats() bool { return v.repeats && v.Small() }

// Small reports whether v takes so little memory that one can be kept for each of many clients. Its size depends on the
// limits of the requests that it was used for.
func (v *Verdict) Small() bool {
	size := cap(v.matched)*int(unsafe.Sizeof(match.Result{})) + cap(v.checks)*int(unsafe.Sizeof(headgate.Check{})) +
		cap(v.infos)*int(unsafe.Sizeof(checkInfo{})) + cap(v.decisions)*int(unsafe.Sizeof(headgate.Decision{})) +
		cap(v.keys) +
		cap(v.applied)*int(unsafe.Sizeof(Applied{})) + cap(v.outcomes)*int(unsafe.Sizeof(Outcome{}))
	return size <= small
}

// small is the limit of Small in bytes: about a dozen limits.
const small = 8 << 10
