package decision

import "github.com/headgate/headgate/server/control/nodequery"

// A Response is the response of POST /v1/explain.
type Response struct {
	Action       string           `json:"action"`
	Reason       string           `json:"reason"`
	Status       int              `json:"status"`
	Rule         string           `json:"rule"`
	RetryAfterMS int64            `json:"retry_after_ms"`
	DelayMS      int64            `json:"delay_ms"`
	Degraded     bool             `json:"degraded"`
	Rules        []nodequery.Rule `json:"rules"`
	Error        string           `json:"error"`
}

// Explanation converts the response to the type that the engine's explanations are converted to.
func (s *Response) Explanation() *Explanation {
	x := &Explanation{Rules: []RuleDecision{}, Verdict: Decision{
		Verdict: s.Action, Passed: s.Action == "allow" || s.Action == "delay", Reason: s.Reason, Rule: s.Rule,
		Status: s.Status, RetryAfterMs: s.RetryAfterMS, DelayMs: s.DelayMS, Degraded: s.Degraded, Limits: []LimitDecision{},
		retryAfter: fromMillis(s.RetryAfterMS), delay: fromMillis(s.DelayMS),
	}}
	for i := range s.Rules {
		r := &s.Rules[i]
		rule := RuleDecision{
			Rule: r.ID, Effect: r.Effect, Mode: r.Mode, Shadow: r.Shadow, Denies: r.Denied, Client: r.Client,
			Override: r.Override, Cost: r.Cost, Limits: []LimitDecision{},
		}
		for _, k := range r.Key {
			rule.addKey(k.Attribute, k.Value)
		}
		for j := range r.Limits {
			l := &r.Limits[j]
			rule.Limits = append(rule.Limits, LimitDecision{
				Rule: r.ID, Name: l.Name, Limit: l.Limit, Allowed: l.Allowed, Asked: l.Remaining != nil, Shadow: r.Shadow,
				Remaining: l.Remaining, RetryAfterMs: l.RetryAfterMS,
			})
			if r.ID == s.Rule {
				x.Verdict.useTighter(l)
			}
		}
		x.Verdict.Limits = append(x.Verdict.Limits, rule.Limits...)
		x.Rules = append(x.Rules, rule)
	}
	return x
}

// useTighter makes l the limit of the decision if it is tighter than the current one. l is tighter if it denies and the
// current one does not, or if both decide the same and l has less remaining.
func (d *Decision) useTighter(l *nodequery.Limit) {
	if l.Remaining == nil || d.limitText != "" && (d.limitAllowed != l.Allowed && l.Allowed ||
		d.limitAllowed == l.Allowed && *l.Remaining >= d.Remaining) {
		return
	}
	d.Limit, d.Remaining, d.limitText, d.limitAllowed = l.Capacity, *l.Remaining, l.Limit, l.Allowed
	if l.ResetAfterMS != nil {
		d.ResetMs, d.reset = *l.ResetAfterMS, fromMillis(*l.ResetAfterMS)
	}
}
