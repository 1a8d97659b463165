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
	// Verdict is the verdict that Decide would return now. It holds nothing, and need not be settled.
	Verdict Verdict
	// Properties are the values of client.<name> in the conditions of rules, as far as these use them.
	Properties []rules.Property
	// Rules are all rules that match, in their order.
	Rules []Explained
}

// Explained is the predicted outcome of one rule.
type Explained struct {
	Outcome
	// Override is the index in Rule.Overrides of the override that decides, -1 if none does.
	Override int
	// Client is the id of the registered client, empty if there is none.
	Client string
	// Properties are the values of client.<name> in the conditions of the rule's overrides, as far as rules use them.
	Properties []rules.Property
	// Shared reports whether other clients share the key: it is checked after the client's own keys.
	Shared bool
	// Key is what the request is counted by: the attributes of the rule's key, or the address in their place. Empty for
	// a rule without a key.
	Key []KeyPart
	// Cost is the number of units that the request would take.
	Cost int64
}

// A KeyPart is an attribute that a request is counted by, and its value, which is empty if it is missing.
type KeyPart struct {
	Attribute headgate.Attribute
	Value     string
}

// Explain returns the outcome of every matching rule for a request, and takes nothing. Unlike Decide it checks all of
// them, even after one that denies. In their decisions Allowed reports whether the cost would be taken, and Remaining
// is the rest before that. RetryAfter is, for algorithms that are not buckets, an upper bound. The error names the
// stores that are unreachable; everything else is valid. Their decisions are Degraded, as those of Decide would be, and
// contain only the result of the policy.
func (e *Engine) Explain(ctx context.Context, s rules.Subject) (*Explanation, error) {
	return e.ExplainTerms(ctx, s, Terms{})
}

// ExplainTerms is Explain for DecideTerms. If the explanation is nil, the error is one of DecideTerms.
func (e *Engine) ExplainTerms(ctx context.Context, s rules.Subject, t Terms) (*Explanation, error) {
	if ctx == nil {
		return nil, headgate.ErrNilContext
	}
	if err := t.validate(); err != nil {
		return nil, err
	}
	x := &Explanation{}
	v := &x.Verdict
	v.reset(e)
	if err := v.match(s, t.Rule); err != nil {
		return nil, err
	}
	a := checkBuilder{v: v, ctx: ctx, subject: s, cost: t.Cost, hasCost: t.HasCost, noWait: t.NoWait}
	for _, shadows := range []bool{false, true} {
		for i := range v.matched {
			if m := &v.matched[i]; m.Effect == match.Limited && isShadow(m) == shadows {
				a.add(i)
			}
		}
		if !shadows {
			v.enforced = len(v.checks)
		}
	}
	if a.copyStrings {
		v.copyStrings()
	}
	var errs []error
	v.decisions = make([]headgate.Decision, len(v.checks))
	for i := range v.checks {
		if err := v.predictCheck(ctx, i); err != nil {
			errs = append(errs, fmt.Errorf("engine: look at rule %s: %w", v.rule(i).ID, err))
		}
	}
	v.predictVerdict()
	outcomes := v.Outcomes()
	set := e.current.Load()
	x.Properties = set.Properties("", s)
	for i := range v.matched {
		m := &v.matched[i]
		x.Rules = append(x.Rules, Explained{
			Outcome: outcomes[i], Override: m.Override, Client: m.Client, Shared: m.Shared, Key: keyOf(m, s),
			Cost: t.costOf(m.Rule, s), Properties: set.Properties(m.Rule.ID, s),
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
	c.Cost = 0
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
		info.wait = d.ResetAfter
	} else if d.Allowed && d.Remaining-info.extended < cost {
		plain := v.limit(info).Limit
		info.wait = retryAfter(&plain, d, cost)
	}
	d.Delay = info.wait
	v.useOwnLimit(i)
	return err
}

// policyDecision returns the result of on_failure for a check whose store failed, as far as it is known without
// counting.
func policyDecision(c *headgate.Check) headgate.Decision {
	d := headgate.Decision{Degraded: true, Limit: c.Limit.Capacity()}
	if c.OnFailure == headgate.Closed {
		d.RetryAfter, d.ResetAfter = closedRetryAfter, closedRetryAfter
		return d
	}
	d.Allowed, d.Remaining = true, d.Limit
	return d
}

// fault returns why a store was unreachable for a check, so that a policy decided.
func (e *Engine) fault(at int8, c headgate.Check) error {
	if l, ok := e.stores.list[at].Limiter.(Faulter); ok {
		if err := l.Fault(c); err != nil {
			return err
		}
	}
	return fmt.Errorf("the %s store is unreachable", e.storeName(at))
}

// retryAfter returns the latest time at which a cost would be taken, from a decision without cost.
func retryAfter(l *headgate.Limit, d *headgate.Decision, cost int64) time.Duration {
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		// Everything is restored in ResetAfter, and the request needs only its cost.
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
	v.conclude(headgate.Allowed(v.decisions[:v.enforced]))
}
