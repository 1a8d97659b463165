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

// A penalty uses two counters of the local store for each client and rule: the denials, and a mark whose only unit is
// taken until the penalty ends. No limit can have these names: only a penalty's limits have "~" in their names, once.
const (
	denialsName = "~~denials"
	markName    = "~~penalty"
)

// exactDenials is the largest Count of a Penalty.After that is counted exactly. Above it, denials are counted by a
// sliding-window, which estimates them from two windows.
const exactDenials = 128

// denialsLimit returns the limit that counts denials. Nothing remains of it when the penalty must begin.
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
	start := len(v.keys)
	v.keys = append(m.AppendKeyBase(v.keys, s), markName...)
	d, err := e.local().Peek(ctx, headgate.Check{Key: e.localKey(v.keys[start:]), Limit: markLimit(m.Rule.Penalty)})
	v.keys = v.keys[:start]
	if err != nil {
		e.reportPenalty(ctx, m.Rule, err)
		return false
	}
	return d.Remaining < 1
}

// localKey returns the key as a string that is valid during one call of the local store. It copies the key only if the
// store may retain it.
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

// handleDenials counts the denials by the rules of the checks from:to that have a penalty, and charges the cost to
// those with count_rejected. It ignores rules that did not deny themselves.
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

// anyOverLimit reports whether one of the checks from:to is denied by its limit, not by the policy closed.
func (v *Verdict) anyOverLimit(from, to int) bool {
	for i := from; i < to; i++ {
		d := &v.decisions[i]
		if !d.Allowed && !(d.Degraded && v.checks[i].OnFailure == headgate.Closed) {
			return true
		}
	}
	return false
}

// countDenial counts a denial by the rule of a check, and begins the penalty when there were enough denials.
func (v *Verdict) countDenial(ctx context.Context, check int) {
	e, r := v.engine, v.rule(check)
	info := &v.infos[check]
	limitName := v.matched[info.matched].LimitName(int(info.limit))
	base := strings.TrimSuffix(v.checks[check].Key, limitName)
	take := func(name string, l headgate.Limit) (headgate.Decision, error) {
		start := len(v.keys)
		v.keys = append(append(v.keys, base...), name...)
		d, err := e.local().Take(ctx, headgate.Check{Key: e.localKey(v.keys[start:]), Limit: l, Cost: 1})
		v.keys = v.keys[:start]
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

// chargeDenied charges the cost of a denied request to the rule that denied it, whose checks are from:to. Then it
// decides the checks again, to update their RetryAfter.
func (v *Verdict) chargeDenied(ctx context.Context, from, to int) {
	ctx, end := v.cleanupContext(ctx, from, to)
	defer end()
	store := v.infos[from].store
	for i := from; i < to; i++ {
		if v.infos[i].store != store || v.checks[i].Limit.Algorithm == headgate.Concurrency {
			return // a store has failed meanwhile, or a registered client has a limit that cannot be charged
		}
	}
	for i := from; i < to; i++ {
		if err := v.charge(ctx, i, v.checks[i].Cost); err != nil {
			v.engine.report(err)
		}
	}
	ds, err := v.engine.stores.list[store].TakeAll(ctx, v.checks[from:to], make([]headgate.Decision, 0, to-from))
	if err == nil && len(ds) != to-from {
		err = errDecisionCount
	}
	if err != nil {
		v.engine.report(fmt.Errorf("engine: check rule %s again after charging a denied request: %w", v.rule(from).ID, err))
		return
	}
	if headgate.Allowed(ds) { // time has passed, so the check would be allowed now; it stays denied: refund its units
		for i := from; i < to; i++ {
			denial := v.decisions[i]
			v.decisions[i] = ds[i-from] // refundAll reads it
			if err := v.refundAll(ctx, i); err != nil {
				v.engine.report(err)
			}
			v.decisions[i] = denial
		}
		return
	}
	copy(v.decisions[from:to], ds)
}
