package rules

import (
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/internal/yield"
)

// A requirement has the settings of a rule that every limit under the rule must suit.
type requirement struct {
	cost      int64 // the smallest cost of a request
	mode      Consistency
	scope     Scope
	split     int
	chargedBy string        // the field that makes the rule charge units after the decision, "" if there is none
	maxWait   time.Duration // the longest delay of a request, 0 if requests are not delayed
	safe      safeKind
}

// safeKind is the kind of Rule.Safe, the limit that applies while the store is unreachable.
type safeKind uint8

const (
	safeNone        safeKind = iota // the rule has none
	safeRate                        // a limit on requests over time
	safeConcurrency                 // a limit on requests in flight
)

func newRequirement(r *Rule) requirement {
	n := requirement{cost: r.Cost.minimum(), mode: r.Consistency, scope: r.Scope, split: r.Split}
	switch {
	case r.Cost.ResponseHeader != "":
		n.chargedBy = "cost.response_header"
	case r.CountRejected:
		n.chargedBy = "count_rejected"
	}
	if r.OnLimit.Action == Delay {
		n.maxWait = r.OnLimit.MaxWait
	}
	switch {
	case r.Safe == nil:
	case r.Safe.Algorithm == headgate.Concurrency:
		n.safe = safeConcurrency
	default:
		n.safe = safeRate
	}
	return n
}

// validate adds the problems of the limits to p: of each limit itself, and of its use under the rule.
func (n *requirement) validate(limits []Limit, at *location, p *problems) {
	validateLimits(limits, at, p)
	for i := range limits {
		if limits[i].Validate() == nil {
			if value, want := n.conflict(&limits[i]); want != "" {
				p.add(at.element(i), value, want)
			}
		}
	}
}

// conflict returns the limit and a description of valid ones if the limit cannot be used under the rule. want is empty
// if it can be used.
func (n *requirement) conflict(l *Limit) (value, want string) {
	for _, check := range []func(*Limit) string{
		n.modeConflict, n.costConflict, n.delayConflict, n.safeConflict, n.splitConflict,
	} {
		if want := check(l); want != "" {
			return Quote(l.String()), want
		}
	}
	return "", ""
}

func (n *requirement) modeConflict(l *Limit) string {
	if ok, reason := Compatible(n.mode, l.Algorithm); !ok {
		return "consistency " + modesFor(l.Algorithm) + " for " + l.Algorithm.String() +
			", not " + n.mode.String() + ": " + reason
	}
	if ok, reason := Compatible(Async, l.Algorithm); !ok && n.scope == ScopeGlobal {
		return "scope: region for " + l.Algorithm.String() + ": between regions counters are as under async, and " + reason
	}
	return ""
}

func (n *requirement) costConflict(l *Limit) string {
	switch {
	case n.chargedBy != "" && l.Algorithm == headgate.Concurrency:
		return "another algorithm, or no " + n.chargedBy + ": a slot of a concurrency limit cannot be charged afterwards"
	case n.cost > l.Capacity():
		return "room for " + strconv.FormatInt(n.cost, 10) +
			" at once, the cost of a request; otherwise every request would be denied"
	}
	return ""
}

func (n *requirement) delayConflict(l *Limit) string {
	switch {
	case n.maxWait <= 0:
		return ""
	case !canDelay(l.Algorithm):
		return "token-bucket, gcra or leaky-bucket, or on_limit: reject instead of delay: under " + l.Algorithm.String() +
			" no place in the queue can be reserved"
	case l.Algorithm != headgate.LeakyBucket && n.extended(l).Validate() != nil:
		return "a lower rate or burst: together with the units restored during the delay it exceeds the largest count"
	}
	return ""
}

// extended returns a limit whose burst has room for the units that are restored during the longest delay. A delayed
// request takes such units ahead of time. The burst is invalid if it would exceed the largest count.
func (n *requirement) extended(l *Limit) headgate.Limit {
	extended := l.Limit
	extended.Burst = headgate.MaxCount + 1 // invalid
	period := uint64(l.Period.Microseconds())
	if high, low := bits.Mul64(uint64(l.Count), uint64(n.maxWait.Microseconds())); high < period {
		if more, _ := bits.Div64(high, low, period); more <= headgate.MaxCount {
			extended.Burst = l.Capacity() + int64(more)
		}
	}
	return extended
}

func (n *requirement) safeConflict(l *Limit) string {
	switch inFlight := l.Algorithm == headgate.Concurrency; {
	case n.safe == safeRate && inFlight:
		return "a limit on requests over time, like safe, or no safe: " +
			"safe replaces every limit, and does not count requests in flight"
	case n.safe == safeConcurrency && !inFlight:
		return "a limit on requests in flight, like safe, or no safe: " +
			"safe replaces every limit, and its slots would never be released"
	}
	return ""
}

func (n *requirement) splitConflict(l *Limit) string {
	parts := int64(n.split)
	switch {
	case parts < 2:
		return ""
	case l.Algorithm == headgate.LeakyBucket:
		return "another algorithm, or no split: each part would space requests on its own"
	case l.Count < parts || l.Capacity()/parts < n.cost:
		return "at least " + strconv.FormatInt(n.cost*parts, 10) + " units, so that each of the " + strconv.Itoa(n.split) +
			" parts has room for the cost of a request, " + strconv.FormatInt(n.cost, 10)
	}
	share := l.Limit // of each part
	share.Count /= parts
	if share.Burst != 0 {
		share.Burst = (share.Burst + parts - 1) / parts
	}
	if share.Validate() != nil {
		return "a smaller burst, or no split: each of the " + strconv.Itoa(n.split) + " parts would take too long to refill"
	}
	return ""
}

// canDelay reports whether requests can be delayed under an algorithm. It must restore units at a steady rate: a
// delayed request takes its units before they are restored, and waits until they are.
func canDelay(a headgate.Algorithm) bool {
	return a == headgate.TokenBucket || a == headgate.GCRA || a == headgate.LeakyBucket
}

// Requirements are the requirements of rules for the limits of registered clients.
type Requirements struct {
	byRule      map[string]*requirement                  // by the id of the rule
	byAttribute map[headgate.Attribute][]ruleRequirement // by an attribute of the rule's key, without duplicates
	all         map[requirement]*requirement             // saves memory: most rules have equal requirements
}

// NewRequirements returns the requirements of valid rules.
func NewRequirements(rules []Rule) *Requirements {
	n := &Requirements{
		byRule:      make(map[string]*requirement, len(rules)),
		byAttribute: map[headgate.Attribute][]ruleRequirement{},
		all:         map[requirement]*requirement{},
	}
	var work yield.Yielder
	for i := range rules {
		work.Step()
		n.add(&rules[i])
	}
	return n
}

// Since returns the requirements by attribute that other does not have, and all requirements by rule.
func (n *Requirements) Since(other *Requirements) *Requirements {
	added := &Requirements{byRule: n.byRule, byAttribute: map[headgate.Attribute][]ruleRequirement{}}
	for a, list := range n.byAttribute {
		for _, required := range list {
			same := func(o ruleRequirement) bool { return *o.requirement == *required.requirement }
			if !slices.ContainsFunc(other.byAttribute[a], same) {
				added.byAttribute[a] = append(added.byAttribute[a], required)
			}
		}
	}
	return added
}

// AnyLimit reports whether clients may have any limits under all rules, because there are no requirements by attribute.
func (n *Requirements) AnyLimit() bool { return len(n.byAttribute) == 0 }

// Check reports all problems of a client, including limits that cannot be used under the rules. The error is an *Error.
func (n *Requirements) Check(c Client) error {
	var p problems
	at := &location{name: "client"}
	if c.validate(at, &p); p.count() == 0 {
		n.check(c.WithDefaults(), at, &p)
	}
	return p.err()
}

// Conflicts returns the limits of a valid client that cannot be used under the rules, by their paths in the client.
func (n *Requirements) Conflicts(c *Client) []Problem {
	var p problems
	n.check(c, nil, &p)
	return p.list
}

// A ruleRequirement is a requirement and the id of one of the rules that have it, for messages.
type ruleRequirement struct {
	*requirement

	rule string
}

// add adds the requirement of a rule.
func (n *Requirements) add(r *Rule) {
	if r.Unlimited || r.Block || len(r.Key) == 0 {
		return
	}
	required := newRequirement(r)
	shared := n.all[required]
	if shared == nil {
		shared = new(requirement)
		*shared = required
		n.all[required] = shared
	}
	n.byRule[r.ID] = shared
	attributes := r.Key
	if r.Fallback == FallbackIP {
		attributes = append(slices.Clone(r.Key), headgate.Attribute{Kind: headgate.AttrIP})
	}
	for _, a := range attributes {
		list := n.byAttribute[a]
		if !slices.ContainsFunc(list, func(o ruleRequirement) bool { return o.requirement == shared }) {
			n.byAttribute[a] = append(list, ruleRequirement{shared, r.ID})
		}
	}
}

// check adds the limits of a client that cannot be used under the rules to p.
func (n *Requirements) check(c *Client, at *location, p *problems) {
	for i := range c.Limits {
		if value, want := n.conflict(c, &c.Limits[i]); want != "" {
			p.add(at.field("limits").element(i), value, want)
		}
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		here := at.field("rules").element(i)
		required, ok := n.byRule[r.ID]
		if !ok {
			p.add(here.field("id"), Quote(r.ID), "an existing rule that counts clients")
			continue
		}
		for j := range r.Limits {
			if value, want := required.conflict(&r.Limits[j]); want != "" {
				p.add(here.field("limits").element(j), value, want)
			}
		}
	}
}

// conflict returns the limit and a description of valid ones if one of the rules that count by an attribute of the
// client cannot use the limit. want is empty if all of them can.
func (n *Requirements) conflict(c *Client, l *Limit) (value, want string) {
	for _, t := range c.Attributes {
		for i := range n.byAttribute[t.Attribute] {
			required := &n.byAttribute[t.Attribute][i]
			if value, want := required.conflict(l); want != "" {
				return value, want + " (under rule " + required.rule + ")"
			}
		}
	}
	return "", ""
}
