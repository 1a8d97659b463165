package engine

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// Decide decides a request by all rules that match it, and takes units from all of their limits or from none. It sets v
// to the result. It returns an error only if ctx has ended; the request then holds no units or slots, and v is invalid.
// A store failure is not an error: the failure policies of the rules decide.
func (e *Engine) Decide(ctx context.Context, s rules.Subject, v *Verdict) error {
	return e.decide(ctx, s, &DecideOptions{}, v)
}

// DecideMore is like Decide, but for a part of a request that is already being served, such as one message of a stream.
// It does not check concurrency limits, because the request already holds its slots.
func (e *Engine) DecideMore(ctx context.Context, s rules.Subject, v *Verdict) error {
	return e.decide(ctx, s, &DecideOptions{skipSlots: true}, v)
}

// One decision in sampleEvery is timed, because reading the clock for every decision would be too slow.
const sampleEvery = 32

// startTime returns the current time, or the zero time if this decision is not measured.
func (e *Engine) startTime() (start time.Time) {
	if e.config.Observe != nil && e.config.Random()%sampleEvery == 0 {
		start = e.config.Clock.Now()
	}
	return start
}

// decide implements the Decide methods.
func (e *Engine) decide(ctx context.Context, s rules.Subject, o *DecideOptions, v *Verdict) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	start := e.startTime()
	v.reset(e)
	var err error
	if e.config.Trace == nil {
		err = v.match(s, o.Rule)
	} else {
		err = v.matchTraced(ctx, s, o.Rule)
	}
	if err != nil {
		return err
	}
	if o.skipSlots || !v.rejectIfBusy(o) {
		err = v.applyLimits(ctx, s, o)
	}
	if err != nil {
		v.reset(e)
		return err
	}
	if !o.peeks() {
		v.observe(start)
	}
	return nil
}

// observe passes the verdict to Config.Observe. start is when the decision began, zero if it is not measured.
func (v *Verdict) observe(start time.Time) {
	if v.engine.config.Observe == nil {
		return
	}
	if !start.IsZero() {
		v.Duration = max(v.engine.config.Clock.Since(start), 1) // 0 means that it was not timed
	}
	v.engine.config.Observe(v)
}

// match finds the rules that decide: the rule with the given id, or all matching rules if id is empty.
func (v *Verdict) match(s rules.Subject, id string) error {
	set := v.engine.current.Load()
	if id == "" {
		v.matched = set.Match(s, v.matched)
		return nil
	}
	var ok bool
	if v.matched, ok = set.AppendRule(id, s, v.matched); !ok {
		return fmt.Errorf("%w: %s", ErrNoRule, rules.Quote(id))
	}
	return nil
}

// A survey says which checks the matched rules need.
type survey struct {
	stages     uint32 // bit set of the stages of the rules whose limits can deny; Engine.stage explains stages
	hasShadows bool   // a shadow rule has limits to check
	allSimple  bool   // all rules with limits to check are simple: see isSimple
	denied     bool   // a rule denies whatever its counters say; v is the denial
}

// surveyRules returns which checks the rules in v.matched need, and sets v.plainAllow. If a rule denies the request
// whatever its counters say, it sets the verdict instead.
func (v *Verdict) surveyRules(s rules.Subject, o *DecideOptions) survey {
	found := survey{allSimple: !o.skipSlots && !o.HasCost}
	plain := !o.skipSlots // see Verdict.PlainAllow
	for i := range v.matched {
		m := &v.matched[i]
		switch {
		case m.Effect.Denies():
			if !isShadow(m) {
				v.deny(m)
				if v.engine.config.Observe != nil && (m.Effect == match.Blocked || m.Effect == match.UnknownClient) {
					v.keys = m.AppendKeyBase(v.keys, s) // Verdict.BlockedClient reads it
				}
				return survey{denied: true}
			}
			plain = false
		case m.Effect != match.Limited:
		case isSimple(m):
			found.stages |= 1 << v.engine.stage(m)
		case isShadow(m):
			found.hasShadows, found.allSimple = true, false
		default:
			found.stages |= 1 << v.engine.stage(m)
			found.allSimple = false
		}
	}
	v.plainAllow = plain && !found.hasShadows
	return found
}

// applyLimits applies the rules in v.matched to the request.
func (v *Verdict) applyLimits(ctx context.Context, s rules.Subject, o *DecideOptions) error {
	found := v.surveyRules(s, o)
	if found.denied {
		return nil
	}
	store := v.engine.stores.byMode[rules.ScopeRegion][rules.ByStore] // the store of simple rules
	if found.allSimple && found.stages != 0 && v.engine.stores.list[store].borrowsKeys {
		if found.stages&unsharedStages != 0 {
			v.addSimple(s, store, false)
		}
		if found.stages&^unsharedStages != 0 {
			v.addSimple(s, store, true)
		}
		v.enforcedCount = len(v.checks)
	} else {
		v.addChecks(ctx, s, o, found)
		store = noStore
	}
	switch {
	case len(v.checks) == 0:
		return nil
	case v.engine.config.Trace != nil:
		return v.takeTraced(ctx, o, store)
	case store != noStore:
		return v.takeSimple(ctx, o, store)
	default:
		return v.take(ctx, o)
	}
}

// addChecks adds the checks of all rules with limits: first those that can deny, in the order of their stages, then
// those of shadow rules.
func (v *Verdict) addChecks(ctx context.Context, s rules.Subject, o *DecideOptions, found survey) {
	b := checkBuilder{
		v: v, ctx: ctx, subject: s, cost: o.Cost, hasCost: o.HasCost, noWait: o.NoWait, skipSlots: o.skipSlots,
	}
	stages := found.stages
	oneStage := stages&(stages-1) == 0
	for ; stages != 0; stages &= stages - 1 { // from the lowest stage on; this clears its bit
		stage := bits.TrailingZeros32(stages)
		for i := range v.matched {
			if m := &v.matched[i]; m.Effect == match.Limited && !isShadow(m) && (oneStage || v.engine.stage(m) == stage) {
				b.add(i)
			}
		}
	}
	v.enforcedCount = len(v.checks)
	if found.hasShadows {
		for i := range v.matched {
			if m := &v.matched[i]; m.Effect == match.Limited && isShadow(m) {
				b.add(i)
			}
		}
	}
	if b.mustCopyStrings {
		v.copyStrings()
	}
}

// unsharedStages is the bit set of the even stages, whose keys clients do not share.
const unsharedStages = 0b01010101_01010101_01010101_01010101

// stage returns the position of a rule's limits in the order of checks. It is twice the index of the rule's store, plus
// 1 for keys that clients share. So these keys come after the other keys of the same store.
func (e *Engine) stage(m *match.Result) int {
	store := e.stores.byMode[rules.ScopeRegion][rules.ByStore]
	if !isSimple(m) {
		store = e.stores.forRule(m.Rule)
	}
	stage := 2 * int(store)
	if m.Shared {
		stage++
	}
	return stage
}

// deny denies a request regardless of its counters.
func (v *Verdict) deny(m *match.Result) {
	v.Rule, v.Action, v.Status, v.RetryAfter = m.Rule, Reject, statusForbidden, headgate.Never
	if m.Rule.OnLimit.Action == rules.Drop {
		v.Action = Drop
	}
	switch m.Effect {
	case match.Unidentified:
		v.Reason = Unidentified
	case match.Ambiguous:
		v.Reason, v.Status = Unidentified, statusBadRequest
	case match.UnknownClient:
		v.Reason = Unregistered
	default:
		v.Reason = Blocked
	}
}

// Statuses that do not come from a rule.
const (
	statusBadRequest  = 400
	statusForbidden   = 403
	statusUnavailable = 503
)
