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

// A penalty uses two counters of the local store for each client and rule. One counts denials. The other, the mark, has
// a single unit, which is taken when the penalty begins and restored when it ends. No limit has these names, because
// the names of limits contain "~" at most once.
const (
	denialsName = "~~denials"
	markName    = "~~penalty"
)

// exactDenials is the largest Count of a Penalty.After for which denials are counted exactly. A larger count would need
// too much memory, so a sliding-window estimates it from the counts of two windows.
const exactDenials = 128

// denialsLimit returns the limit that counts denials. The penalty begins when no unit of this limit remains.
func denialsLimit(p *rules.Penalty) headgate.Limit {
	l := headgate.Limit{Algorithm: headgate.SlidingLog, Count: p.After.Count, Period: p.After.Within}
	if l.Count > exactDenials {
		l.Algorithm = headgate.SlidingWindow
	}
	return l
}

// markLimit returns the limit of the mark: a bucket of one unit, which is restored in the time of the penalty.
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

// handleDenials looks at the checks from:to and handles each rule whose limits denied the request. It counts the denial
// if the rule has a penalty, and charges the cost if the rule has count_rejected.
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

// anyOverLimit reports whether one of the checks from:to is denied by its limit and not by the policy closed.
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

// chargeDenied charges the cost of a denied request to the rule that denied it, whose checks are from:to. The charge
// changes RetryAfter, so it decides the checks again.
func (v *Verdict) chargeDenied(ctx context.Context, from, to int) {
	ctx, cancel := v.cleanupContext(ctx, from, to)
	defer cancel()
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
	if headgate.Allowed(ds) { // enough time has passed since the denial; the request stays denied, so refund its units
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
