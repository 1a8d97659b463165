package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// An Explanation is the predicted decision on a request.
type Explanation struct {
	// Verdict is the verdict that Decide would return now. It holds no units or slots, so Settle need not be called.
	Verdict Verdict
	// Properties are the client's properties (client.<name>) that the conditions of rules use to match requests. Those
	// that the conditions of overrides use are in RuleExplanation.Properties.
	Properties []rules.Property
	// Rules are the outcomes of all rules that match, in the order of the rules.
	Rules []RuleExplanation
}

// A RuleExplanation is the predicted outcome of one rule.
type RuleExplanation struct {
	Outcome
	// Override is the index in Rule.Overrides of the override that applies, -1 if none does.
	Override int
	// Client is the id of the registered client, empty if there is none.
	Client string
	// Properties are the client's properties (client.<name>) that the conditions of the rule's overrides use.
	Properties []rules.Property
	// Shared reports whether other clients share the key. Shared keys are checked after the client's own keys.
	Shared bool
	// Key has the attributes by which the request is counted: those of the rule's key or, if one of them is missing and
	// the rule has the fallback "ip", the IP address. It is empty for a rule without a key.
	Key []KeyPart
	// Cost is the number of units that the request would take.
	Cost int64
}

// A KeyPart is an attribute that a request is counted by, and its value, which is empty if the request lacks it.
type KeyPart struct {
	Attribute headgate.Attribute
	Value     string
}

// Explain returns the outcome of every matching rule for a request, and takes nothing. Unlike Decide it checks all
// rules, even after one that denies. In the decisions, Allowed reports whether the cost would be taken, and Remaining
// is the number of units before the cost is taken. RetryAfter is exact for token-bucket, gcra and leaky-bucket limits,
// and an upper bound for others.
//
// The error names the unreachable stores. The explanation is valid even then: the decisions of these stores are
// Degraded, as they would be for Decide, and contain only the result of the failure policy.
func (e *Engine) Explain(ctx context.Context, s rules.Subject) (*Explanation, error) {
	return e.ExplainWith(ctx, s, DecideOptions{})
}

// ExplainWith is like Explain, but predicts DecideWith. For input that DecideWith refuses, it returns no explanation,
// and the error that DecideWith returns.
func (e *Engine) ExplainWith(ctx context.Context, s rules.Subject, o DecideOptions) (*Explanation, error) {
	if ctx == nil {
		return nil, headgate.ErrNilContext
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	x := &Explanation{}
	v := &x.Verdict
	v.reset(e)
	if err := v.match(s, o.Rule); err != nil {
		return nil, err
	}
	builder := checkBuilder{v: v, ctx: ctx, subject: s, cost: o.Cost, hasCost: o.HasCost, noWait: o.NoWait}
	for _, addShadows := range []bool{false, true} { // the checks of shadow rules follow the others
		for i := range v.matched {
			if m := &v.matched[i]; m.Effect == match.Limited && isShadow(m) == addShadows {
				builder.add(i)
			}
		}
		if !addShadows {
			v.enforcedCount = len(v.checks)
		}
	}
	if builder.mustCopyStrings { // a store may keep the strings of a check after the call
		v.copyStrings()
	}
	var errs []error
	v.decisions = make([]headgate.Decision, len(v.checks))
	for i := range v.checks {
		if err := v.predictCheck(ctx, i); err != nil {
			errs = append(errs, fmt.Errorf("engine: explain rule %s: %w", v.rule(i).ID, err))
		}
	}
	v.predictVerdict()
	outcomes := v.Outcomes()
	set := e.current.Load()
	x.Properties = set.Properties("", s)
	for i := range v.matched {
		m := &v.matched[i]
		x.Rules = append(x.Rules, RuleExplanation{
			Outcome: outcomes[i], Override: m.Override, Client: m.Client, Shared: m.Shared, Key: keyOf(m, s),
			Cost: o.costOf(m.Rule, s), Properties: set.Properties(m.Rule.ID, s),
		})
	}
	return x, errors.Join(errs...)
}

// keyOf returns the key of a request under a rule.
func keyOf(m *match.Result, s rules.Subject) []KeyPart {
	var parts []KeyPart
	missing := false
	for _, a := range m.Rule.Key {
		value, _ := s.Get(a)
		missing = missing || value == ""
		parts = append(parts, KeyPart{a, value})
	}
	if missing && m.Rule.Fallback == rules.FallbackIP {
		ip := headgate.Attribute{Kind: headgate.AttrIP}
		value, _ := s.Get(ip)
		return []KeyPart{{ip, value}}
	}
	return parts
}

// predictCheck predicts the decision of a check by reading its counter.
func (v *Verdict) predictCheck(ctx context.Context, i int) error {
	info, c, d := &v.infos[i], v.checks[i], &v.decisions[i]
	cost := c.Cost
	c.Cost = 0 // get the decision before the cost is taken; the effect of the cost is calculated below
	peeked, err := v.store(i).Peek(ctx, c)
	switch {
	case err != nil:
		peeked = policyDecision(&c)
	case peeked.Degraded:
		err = v.engine.fault(info.store, c)
	}
	*d = peeked
	switch {
	case d.Degraded && !d.Allowed:
		return err
	case cost > d.Limit:
		d.Allowed, d.RetryAfter = false, headgate.Never
	case d.Remaining < cost:
		d.Allowed, d.RetryAfter = false, retryAfter(&c.Limit, d, cost)
	default:
		d.Allowed, d.RetryAfter = true, 0
	}
	if v.rule(i).OnLimit.Action != rules.Delay {
		return err
	}
	if l := &c.Limit; d.Allowed && l.Algorithm == headgate.LeakyBucket {
		info.wait = d.ResetAfter // the request leaves the bucket after all earlier requests
	} else if d.Allowed && d.Remaining-info.extraCapacity < cost {
		ruleLimit := v.limit(info).Limit // without the extra capacity
		info.wait = retryAfter(&ruleLimit, d, cost)
	}
	d.Delay = info.wait
	v.reportRuleLimit(i)
	return err
}

// policyDecision predicts the result of on_failure for a check whose store failed. For local it predicts that the check
// is allowed, as for open, because it does not read the local counter, which may deny the check.
func policyDecision(c *headgate.Check) headgate.Decision {
	d := headgate.Decision{Degraded: true, Limit: c.Limit.Capacity()}
	if c.OnFailure == headgate.Closed {
		d.RetryAfter, d.ResetAfter = closedRetryAfter, closedRetryAfter
		return d
	}
	d.Allowed, d.Remaining = true, d.Limit
	return d
}

// fault returns the reason why a policy instead of the store decided a check.
func (e *Engine) fault(storeIndex int8, c headgate.Check) error {
	if f, ok := e.stores.list[storeIndex].Limiter.(FaultReporter); ok {
		if err := f.Fault(c); err != nil {
			return err
		}
	}
	return fmt.Errorf("the %s store is unreachable", e.storeName(storeIndex))
}

// retryAfter returns the time until a cost can be taken or, for algorithms that are not buckets, an upper bound on it.
// d is the decision of a Peek without a cost.
func retryAfter(l *headgate.Limit, d *headgate.Decision, cost int64) time.Duration {
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		// After ResetAfter the bucket has room for its whole capacity. The request needs room only for its cost.
		return max(d.ResetAfter-timeFor(l, l.Capacity()-cost), time.Microsecond)
	default:
		return d.ResetAfter
	}
}

// predictVerdict sets the verdict that Decide would return.
func (v *Verdict) predictVerdict() {
	for i := range v.matched {
		if m := &v.matched[i]; m.Effect.Denies() && !isShadow(m) {
			v.deny(m)
			return
		}
	}
	v.conclude(headgate.Allowed(v.decisions[:v.enforcedCount]))
}
