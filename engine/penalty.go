package engine

import (
	"context"
	"fmt"
	"strings"
	"unsafe"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A penalty uses two counters of the local store for each client and rule: the denials, and a mark that is full until
// the penalty ends. Their names cannot be those of limits.
const (
	denialsName = "~~denials"
	markName    = "~~penalty"
)

// exactDenials is the number of denials that are counted exactly. More are estimated in two windows.
const exactDenials = 128

// denialsLimit returns the limit that counts denials: the last allowed denial leaves nothing.
func denialsLimit(p *rules.Penalty) headgate.Limit {
	l := headgate.Limit{Algorithm: headgate.SlidingLog, Count: p.After.Count, Period: p.After.Within}
	if l.Count > exactDenials {
		l.Algorithm = headgate.SlidingWindow
	}
	return l
}

// markLimit returns a bucket of one unit that is restored when the penalty ends.
func markLimit(p *rules.Penalty) headgate.Limit { return headgate.Per(1, p.For) }

// penalized reports whether the client was denied so often that the limits of the rule's penalty apply.
func (e *Engine) penalized(ctx context.Context, s rules.Subject, v *Verdict, m *match.Result) bool {
	at := len(v.keys)
	v.keys = append(m.AppendKeyBase(v.keys, s), markName...)
	d, err := e.local().Peek(ctx, headgate.Check{Key: e.localKey(v.keys[at:]), Limit: markLimit(m.Rule.Penalty)})
	v.keys = v.keys[:at]
	if err != nil {
		e.reportPenalty(ctx, m.Rule, err)
		return false
	}
	return d.Remaining < 1
}

// localKey returns a key for one call of the local store.
func (e *Engine) localKey(key []byte) string {
	if e.local().borrowsKeys {
		return unsafe.String(unsafe.SliceData(key), len(key))
	}
	return string(key)
}

// reportPenalty reports that denials cannot be counted, unless the request has ended.
func (e *Engine) reportPenalty(ctx context.Context, r *rules.Rule, err error) {
	if ctx.Err() == nil {
		e.report(fmt.Errorf("engine: penalty of rule %s: %w", r.ID, err))
	}
}

// handleDenials handles the denials by rules whose checks are in the given range: it counts the denial, and charges the
// cost if the rule says so. It ignores rules that did not deny themselves.
func (v *Verdict) handleDenials(ctx context.Context, from, to int) {
	for next := 0; from < to; from = next {
		next = v.ruleEnd(from)
		r := v.rule(from)
		if r.Penalty == nil && !r.CountRejected || !v.anyOverLimit(from, next) {
			continue
		}
		if r.Penalty != nil {
			v.countDenial(ctx, from)
		}
		if r.CountRejected {
			v.chargeDenied(ctx, from, next)
		}
	}
}

// anyOverLimit reports whether one of the checks is over its limit.
func (v *Verdict) anyOverLimit(from, to int) bool {
	for i := from; i < to; i++ {
		d := &v.decisions[i]
		if !d.Allowed && !(d.Degraded && v.checks[i].OnFailure == headgate.Closed) {
			return true
		}
	}
	return false
}

// countDenial counts a denial by the rule of a check, and begins the penalty when there are enough of them.
func (v *Verdict) countDenial(ctx context.Context, check int) {
	e, r := v.engine, v.rule(check)
	a := &v.infos[check]
	name := v.matched[a.matched].LimitName(int(a.limit))
	base := strings.TrimSuffix(v.checks[check].Key, name)
	take := func(name string, l headgate.Limit) (headgate.Decision, error) {
		at := len(v.keys)
		v.keys = append(append(v.keys, base...), name...)
		d, err := e.local().Take(ctx, headgate.Check{Key: e.localKey(v.keys[at:]), Limit: l, Cost: 1})
		v.keys = v.keys[:at]
		return d, err
	}
	d, err := take(denialsName, denialsLimit(r.Penalty))
	if err == nil && d.Remaining < 1 {
		_, err = take(markName, markLimit(r.Penalty))
	}
	if err != nil {
		e.reportPenalty(ctx, r, err)
	}
}

// chargeDenied charges the cost of a request that the rule of some checks has denied, and updates their RetryAfter.
func (v *Verdict) chargeDenied(ctx context.Context, from, to int) {
	ctx, end := v.cleanupContext(ctx, from, to)
	defer end()
	at := v.infos[from].store
	for i := from; i < to; i++ {
		if v.infos[i].store != at || v.checks[i].Limit.Algorithm == headgate.Concurrency {
			return // a store has failed meanwhile, or a registered client has a limit that cannot be charged
		}
	}
	for i := from; i < to; i++ {
		if err := v.charge(ctx, i, v.checks[i].Cost); err != nil {
			v.engine.report(err)
		}
	}
	ds, err := v.engine.stores.list[at].TakeAll(ctx, v.checks[from:to], make([]headgate.Decision, 0, to-from))
	if err == nil && len(ds) != to-from {
		err = errDecisionCount
	}
	if err != nil {
		v.engine.report(fmt.Errorf("engine: check rule %s again after charging a denied request: %w", v.rule(from).ID, err))
		return
	}
	if headgate.Allowed(ds) { // the request would be allowed by now, but stays denied
		for i := from; i < to; i++ {
			d := v.decisions[i]
			v.decisions[i] = ds[i-from]
			if err := v.refundAll(ctx, i); err != nil {
				v.engine.report(err)
			}
			v.decisions[i] = d
		}
		return
	}
	copy(v.decisions[from:to], ds)
}
