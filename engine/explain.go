package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// An Explanation is what would become of a request, and why.
type Explanation struct {
	// Verdict is what Decide would say now. It holds nothing, and there is nothing to settle.
	Verdict Verdict
	// Properties are what client.<name> is in the conditions of rules, as far as they ask for it.
	Properties []rules.Property
	// Rules are all rules that match, in their order.
	Rules []Explained
}

// Explained is what one rule would say.
type Explained struct {
	Outcome
	// Override is the place in Rule.Overrides of the override that decides, -1 if none does.
	Override int
	// Client is the id of the registered client, empty if it is none.
	Client string
	// Properties are what client.<name> is in the conditions of the rule's overrides, as far as rules ask for it.
	Properties []rules.Property
	// Shared tells that others count under the same key: it is asked after those that are the client's own.
	Shared bool
	// Key is what the request is counted by: the attributes of the rule's key, or the address in their place. Empty for a
	// rule with one bucket for all.
	Key []KeyPart
	// Cost is what the request would take.
	Cost int64
}

// A KeyPart is an attribute that a request is counted by, and its value, which is empty if the request lacks it.
type KeyPart struct {
	Attribute headgate.Attribute
	Value     string
}

// Explain tells what every rule that matches would say of a request, and takes nothing. Unlike Decide it asks all of them,
// also those behind one that denies. In their decisions Allowed tells whether the cost would be taken, and Remaining is
// what is there before. RetryAfter is, for algorithms that are not buckets, when the cost would be taken at the latest.
// The error says which stores could not be asked; everything else is there all the same. What remains there is not known:
// the decisions are Degraded, as those of Decide would be, and say nothing but what the policy does.
func (e *Engine) Explain(ctx context.Context, s rules.Subject) (*Explanation, error) {
	return e.ExplainTerms(ctx, s, Terms{})
}

// ExplainTerms is Explain for what DecideTerms would say. Without an explanation the error is one of that.
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
	a := asking{v: v, ctx: ctx, subject: s, cost: t.Cost, hasCost: t.HasCost, unheld: t.Unheld}
	for _, shadows := range []bool{false, true} {
		for i := range v.matched {
			if m := &v.matched[i]; m.Effect == rules.Limited && shadow(m) == shadows {
				a.add(i)
			}
		}
		if !shadows {
			v.binding = len(v.checks)
		}
	}
	if a.lends {
		v.lend()
	}
	var errs []error
	v.decisions = make([]headgate.Decision, len(v.checks))
	for i := range v.checks {
		if err := v.look(ctx, i); err != nil {
			errs = append(errs, fmt.Errorf("engine: look at rule %s: %w", v.rule(i).ID, err))
		}
	}
	v.foresee()
	outcomes := v.Outcomes()
	set := e.current.Load()
	x.Properties = set.Properties("", s)
	for i := range v.matched {
		m := &v.matched[i]
		x.Rules = append(x.Rules, Explained{
			Outcome: outcomes[i], Override: m.Override, Client: m.Client, Shared: m.Shared, Key: keyOf(m, s),
			Cost: t.of(m.Rule, s), Properties: set.Properties(m.Rule.ID, s),
		})
	}
	return x, errors.Join(errs...)
}

// keyOf returns what a request is counted by under a rule.
func keyOf(m *rules.Matched, s rules.Subject) []KeyPart {
	var parts []KeyPart
	lacks := false
	for _, a := range m.Rule.Key {
		value, _ := s.Get(a)
		lacks = lacks || value == ""
		parts = append(parts, KeyPart{a, value})
	}
	if lacks && m.Rule.Fallback == rules.FallbackIP {
		ip := headgate.Attribute{Kind: headgate.AttrIP}
		value, _ := s.Get(ip)
		return []KeyPart{{ip, value}}
	}
	return parts
}

// look finds out what a check would come to, by a look at what is there.
func (v *Verdict) look(ctx context.Context, i int) error {
	a, c, d := &v.asked[i], v.checks[i], &v.decisions[i]
	cost := c.Cost
	c.Cost = 0
	found, err := v.engine.stores.list[a.store].Take(ctx, c)
	switch {
	case err != nil:
		found = byPolicy(&c)
	case found.Degraded:
		err = v.engine.fault(a.store, c)
	}
	*d = found
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
		a.wait = d.ResetAfter
	} else if d.Allowed && d.Remaining-a.extended < cost {
		plain := v.limit(a).Limit
		a.wait = retryAfter(&plain, d, cost)
	}
	d.Delay = a.wait
	v.plain(i)
	return err
}

// byPolicy returns what on_failure says of a check whose store failed, as far as that is known without counting.
func byPolicy(c *headgate.Check) headgate.Decision {
	d := headgate.Decision{Degraded: true, Limit: c.Limit.Capacity()}
	if c.OnFailure == headgate.Closed {
		d.RetryAfter, d.ResetAfter = closedFor, closedFor
		return d
	}
	d.Allowed, d.Remaining = true, d.Limit
	return d
}

// fault says why a store could not be asked about a check, so that a policy decided.
func (e *Engine) fault(at int8, c headgate.Check) error {
	if l, ok := e.stores.list[at].Limiter.(Faulter); ok {
		if err := l.Fault(c); err != nil {
			return err
		}
	}
	return fmt.Errorf("the %s store could not be asked", e.storeName(at))
}

// retryAfter returns when a cost would be taken at the latest, by what a look has said.
func retryAfter(l *headgate.Limit, d *headgate.Decision, cost int64) time.Duration {
	switch l.Algorithm {
	case headgate.TokenBucket, headgate.GCRA, headgate.LeakyBucket:
		// All comes back in ResetAfter, and the request needs no more than its cost.
		return max(d.ResetAfter-timeFor(l, l.Capacity()-cost), time.Microsecond)
	default:
		return d.ResetAfter
	}
}

// foresee says what Decide would say, once everything was looked at.
func (v *Verdict) foresee() {
	for i := range v.matched {
		if m := &v.matched[i]; m.Effect.Denies() && !shadow(m) {
			v.deny(m)
			return
		}
	}
	v.conclude(headgate.Allowed(v.decisions[:v.binding]))
}
