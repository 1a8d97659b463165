package telemetry

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// Observe counts a verdict. It is for engine.Config.Observe, and does not allocate.
func (m *Metrics) Observe(v *engine.Verdict) {
	if m.shedsDetail == nil || !m.shedsDetail() {
		m.observeDetail(v)
	}
	d := m.decisions
	d.requests[verdictOf[v.Action]].Add(1)
	if v.Duration > 0 {
		m.decisionTime.Observe(v.Duration.Seconds())
	}
	if v.PlainAllow() {
		m.countAllowed(v)
		return
	}
	limited, shadow, unlimited := false, false, false
	for i, outcomes := 0, v.Outcomes(); i < len(outcomes); i++ {
		o := &outcomes[i]
		result, decided := outcomeVerdict(v, o)
		if !decided {
			continue
		}
		limited, shadow = true, shadow || result == shadowed
		counters := d.countersOf(o.Rule)
		if o.Degraded {
			counters.fallback[result].Add(1)
			kind := o.Rule.OnFailure
			if o.Rule.OnLimit.Action == rules.Shadow {
				kind = shadowFallback
			}
			counters.degraded[kind].Add(1)
			unlimited = unlimited || kind == headgate.Open
			continue
		}
		counters.counts[result].Add(1)
	}
	if !limited && v.Action.Passes() {
		d.noRule.counts[allowed].Add(1)
	}
	if shadow {
		d.shadowed.Add(1)
	}
	if v.Degraded {
		d.degraded.Add(1)
	}
	if unlimited {
		d.unlimited.Add(1)
	}
}

// observeDetail counts a verdict for its client, and adds it to the log of decisions.
func (m *Metrics) observeDetail(v *engine.Verdict) {
	if m.recorder != nil {
		m.recorder.Observe(v)
	}
	if m.log != nil {
		m.log.Observe(v)
	}
}

// countAllowed counts a verdict of a request that all rules allow.
func (m *Metrics) countAllowed(v *engine.Verdict) {
	d, matched := m.decisions, v.Matched()
	limited := false
	for i := range matched {
		if decides(matched[i].Effect) {
			d.countersAt(&matched[i]).counts[allowed].Add(1)
			limited = true
		}
	}
	if !limited {
		d.noRule.counts[allowed].Add(1)
	}
}

var verdictOf = [...]verdict{
	engine.Allow: allowed, engine.Delay: delayed, engine.Reject: rejected, engine.Drop: dropped,
}

// decides reports whether a rule with an effect decides about the request. If the request lacks an attribute of the key,
// or another rule exempts it, the rule does not.
func decides(e match.Effect) bool { return e != match.Skipped && e != match.Exempted }

// outcomeVerdict returns the verdict of one rule. decided is false if the rule did not decide: it was skipped, or another
// rule has denied the request before.
func outcomeVerdict(v *engine.Verdict, o *engine.Outcome) (result verdict, decided bool) {
	switch {
	case !decides(o.Effect):
		return 0, false
	case o.Effect.Denies() && o.Shadow:
		return shadowed, true
	case o.Effect.Denies():
		return blocked, true
	case o.Effect != match.Limited:
		return allowed, true
	case !o.Checked:
		return 0, false
	case !o.Denied && v.Action == engine.Delay && v.Rule == o.Rule:
		return delayed, true
	case !o.Denied:
		return allowed, true
	case o.Shadow:
		return shadowed, true
	case o.Rule.OnLimit.Action == rules.Drop:
		return dropped, true
	default:
		return rejected, true
	}
}
