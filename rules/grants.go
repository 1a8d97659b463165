package rules

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// validateGrants says what is wrong with what a rule lets pass: its limits, its overrides', its penalty's.
func (r *Rule) validateGrants(at *place, p *problems) {
	validateOne(r.Limits, r.Unlimited, r.Block, true, at, p)
	if r.Unlimited || r.Block {
		const why = "none: nothing is counted under a rule that blocks or exempts; narrow its when instead"
		if len(r.Overrides) > 0 {
			p.add(at.field("overrides"), "", why)
		}
		if r.Penalty != nil {
			p.add(at.field("penalty"), "", why)
		}
		if r.Unregistered != UnregisteredDefault {
			p.add(at.field("unregistered"), r.Unregistered.String(), why)
		}
		return
	}
	need := needOf(r)
	need.validate(r.Limits, at.field("limits"), p)
	if len(r.Overrides) > MaxOverrides {
		p.add(at.field("overrides"), strconv.Itoa(len(r.Overrides)), "at most "+strconv.Itoa(MaxOverrides)+"; register clients instead")
		return
	}
	for i := range r.Overrides {
		o := &r.Overrides[i]
		here := at.field("overrides").element(i)
		if o.When.empty() {
			p.add(here.field("when"), "", "for whom it is; for everybody, change the rule's limits")
		}
		new(extent).condition(&o.When, here.field("when"), p)
		validateOne(o.Limits, o.Unlimited, o.Block, true, here, p)
		need.validate(o.Limits, here.field("limits"), p)
	}
	if r.Penalty != nil {
		r.validatePenalty(&need, at.field("penalty"), p)
	}
}

// validateOne says what is wrong if not exactly one is given, or none where one must be.
func validateOne(limits []Limit, unlimited, block, must bool, at *place, p *problems) {
	var given []string
	if len(limits) > 0 {
		given = append(given, "limits")
	}
	if unlimited {
		given = append(given, "unlimited")
	}
	if block {
		given = append(given, "block")
	}
	switch {
	case len(given) > 1:
		p.add(at, strings.Join(given, " and "), "one of them")
	case len(given) == 0 && must:
		p.add(at, "", "limits, or unlimited: true, or block: true")
	}
	if len(limits) > MaxLimits {
		p.add(at.field("limits"), strconv.Itoa(len(limits)), "at most "+strconv.Itoa(MaxLimits))
	}
}

// A need is what a rule asks of every limit that is used under it.
type need struct {
	cost        int64
	mode        Consistency
	split       int
	charges     bool   // units are charged afterwards
	chargesWhat string // the field that says so
}

func needOf(r *Rule) need {
	n := need{cost: r.Cost.least(), mode: r.Consistency, split: r.Split}
	if r.Cost.ResponseHeader != "" {
		n.charges, n.chargesWhat = true, "cost.response_header"
	} else if r.CountRejected {
		n.charges, n.chargesWhat = true, "count_rejected"
	}
	return n
}

// validate says what is wrong with limits by themselves, and under the rule.
func (n *need) validate(limits []Limit, at *place, p *problems) {
	validateLimits(limits, at, p)
	for i := range limits {
		if limits[i].Validate() == nil {
			if value, want := n.refuses(&limits[i]); want != "" {
				p.add(at.element(i), value, want)
			}
		}
	}
}

// validateLimits says what is wrong with limits by themselves.
func validateLimits(limits []Limit, at *place, p *problems) {
	for i := range limits {
		l := &limits[i]
		here := at.element(i)
		if err := l.Validate(); err != nil {
			value, want := Explain(err)
			p.add(here, value, want)
		}
		if l.Name == "" {
			continue
		}
		if !isName(l.Name, "-_.") || !isLetter(l.Name[0]) || len(l.Name) > MaxLimitName {
			p.add(here.field("name"), Quote(l.Name), "a letter, then letters, digits, '-', '_' and '.', at most 64 bytes")
		}
		if slices.ContainsFunc(limits[:i], func(o Limit) bool { return o.Name == l.Name }) {
			p.add(here.field("name"), Quote(l.Name), "a name that no other limit has here")
		}
	}
}

// refuses says why a limit cannot be used; want is empty if it can.
func (n *need) refuses(l *Limit) (value, want string) {
	text := Quote(l.Limit.String())
	if ok, why := Compatible(n.mode, l.Algorithm); !ok {
		return text, "consistency " + modesOf(l.Algorithm) + " for " + l.Algorithm.String() + ", not " + n.mode.String() + ": " + why
	}
	if n.charges && l.Algorithm == headgate.Concurrency {
		return text, "another algorithm, or no " + n.chargesWhat + ": a place under concurrency cannot be charged afterwards"
	}
	if n.cost > l.Capacity() {
		return text, "room for " + strconv.FormatInt(n.cost, 10) + " at once, which is what a request costs; otherwise none could ever pass"
	}
	if n.split < 2 {
		return "", ""
	}
	if l.Algorithm == headgate.LeakyBucket {
		return text, "another algorithm, or no split: each part would space what passes on its own"
	}
	if share := min(l.Count, l.Capacity()) / int64(n.split); share < n.cost {
		return text, "at least " + strconv.FormatInt(n.cost*int64(n.split), 10) + " units, so that each of the " +
			strconv.Itoa(n.split) + " parts has room for the cost of a request, " + strconv.FormatInt(n.cost, 10)
	}
	return "", ""
}

func (r *Rule) validatePenalty(need *need, at *place, p *problems) {
	b := r.Penalty
	if len(r.Key) == 0 {
		p.add(at, "", "a key: without one everybody would be punished for anybody")
	}
	if b.After.Count < 1 || b.After.Count > headgate.MaxCount {
		p.add(at.field("after"), strconv.FormatInt(b.After.Count, 10), `at least one denial, as in "100 denials in 1m"`)
	}
	if b.After.Within <= 0 || b.After.Within > headgate.MaxPeriod {
		p.add(at.field("after"), b.After.Within.String(), `a time of at most 366 days, as in "100 denials in 1m"`)
	}
	if b.For <= 0 || b.For > headgate.MaxPeriod {
		p.add(at.field("for"), b.For.String(), "for how long it lasts, such as 10m; at most 366 days")
	}
	if len(b.Limits) == 0 {
		p.add(at.field("limits"), "", "the limits that hold meanwhile, lower than the rule's")
	}
	if len(b.Limits) > MaxLimits {
		p.add(at.field("limits"), strconv.Itoa(len(b.Limits)), "at most "+strconv.Itoa(MaxLimits))
	}
	need.validate(b.Limits, at.field("limits"), p)
	for i := range b.Limits {
		for j := range r.Limits {
			if l, own := &b.Limits[i], &r.Limits[j]; l.Validate() == nil && own.Validate() == nil && !lower(l, own) {
				p.add(at.field("limits").element(i), Quote(l.Limit.String()),
					"less than the rule's own "+own.Limit.String()+": it would not be a penalty")
			}
		}
	}
}

// lower tells whether a limit is lower than another in some way: in its rate or in what can be taken at once. Limits that
// count different things are not compared.
func lower(a, b *Limit) bool {
	if (a.Algorithm == headgate.Concurrency) != (b.Algorithm == headgate.Concurrency) {
		return true
	}
	if a.Capacity() < b.Capacity() {
		return true
	}
	if a.Algorithm == headgate.Concurrency {
		return false
	}
	// a.Count/a.Period < b.Count/b.Period
	aHigh, aLow := bits.Mul64(uint64(a.Count), uint64(b.Period))
	bHigh, bLow := bits.Mul64(uint64(b.Count), uint64(a.Period))
	return aHigh < bHigh || aHigh == bHigh && aLow < bLow
}
