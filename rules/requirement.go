package rules

import (
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/internal/yield"
)

// A requirement holds the settings of a rule that restrict its limits. For example, a limit needs a capacity of at
// least the cost.
type requirement struct {
	cost      int64 // the smallest cost of a request
	mode      Consistency
	scope     Scope
	split     int
	chargedBy string        // the field because of which units are charged after the decision, or ""
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
	req := requirement{cost: r.Cost.minimum(), mode: r.Consistency, scope: r.Scope, split: r.Split}
	switch {
	case r.Cost.ResponseHeader != "":
		req.chargedBy = "cost.response_header"
	case r.CountRejected:
		req.chargedBy = "count_rejected"
	}
	if r.OnLimit.Action == Delay {
		req.maxWait = r.OnLimit.MaxWait
	}
	switch {
	case r.Safe == nil:
	case r.Safe.Algorithm == headgate.Concurrency:
		req.safe = safeConcurrency
	default:
		req.safe = safeRate
	}
	return req
}

// validate adds the problems of the limits to p: those of each limit itself, and those of its use under the rule.
func (req *requirement) validate(limits []Limit, at *location, p *problems) {
	validateLimits(limits, at, p)
	for i := range limits {
		if limits[i].Validate() == nil {
			if value, want := req.conflict(&limits[i]); want != "" {
				p.add(at.element(i), value, want)
			}
		}
	}
}

// conflict returns want, a description of valid limits, if the limit cannot be used under the rule, and "" if it can.
// value is the limit as text.
func (req *requirement) conflict(l *Limit) (value, want string) {
	for _, check := range []func(*Limit) string{
		req.modeConflict, req.costConflict, req.delayConflict, req.safeConflict, req.splitConflict,
	} {
		if want := check(l); want != "" {
			return Quote(l.String()), want
		}
	}
	return "", ""
}

func (req *requirement) modeConflict(l *Limit) string {
	if ok, reason := Compatible(req.mode, l.Algorithm); !ok {
		return "consistency " + modesFor(l.Algorithm) + " for " + l.Algorithm.String() +
			", not " + req.mode.String() + ": " + reason
	}
	if ok, reason := Compatible(Async, l.Algorithm); !ok && req.scope == ScopeGlobal {
		return "scope: region for " + l.Algorithm.String() + ": regions share counters as async does, and " + reason
	}
	return ""
}

func (req *requirement) costConflict(l *Limit) string {
	switch {
	case req.chargedBy != "" && l.Algorithm == headgate.Concurrency:
		return "another algorithm, or no " + req.chargedBy + ": a slot of a concurrency limit cannot be charged afterwards"
	case req.cost > l.Capacity():
		return "room for " + strconv.FormatInt(req.cost, 10) +
			" at once, the cost of a request; otherwise every request would be denied"
	}
	return ""
}

func (req *requirement) delayConflict(l *Limit) string {
	switch {
	case req.maxWait <= 0:
		return ""
	case !canDelay(l.Algorithm):
		return "token-bucket, gcra or leaky-bucket, or on_limit: reject instead of delay: under " + l.Algorithm.String() +
			" no place in the queue can be reserved"
	case l.Algorithm != headgate.LeakyBucket && req.extended(l).Validate() != nil:
		return "a lower rate or burst: together with the units restored during the delay it exceeds the largest count"
	}
	return ""
}

// extended returns the limit with a larger burst, which includes the units that are restored during the longest delay.
// A delayed request takes these units in advance. The burst is invalid if it would exceed the largest count.
func (req *requirement) extended(l *Limit) headgate.Limit {
	extended := l.Limit
	extended.Burst = headgate.MaxCount + 1 // invalid, unless it is set below
	period := uint64(l.Period.Microseconds())
	if high, low := bits.Mul64(uint64(l.Count), uint64(req.maxWait.Microseconds())); high < period {
		if more, _ := bits.Div64(high, low, period); more <= headgate.MaxCount {
			extended.Burst = l.Capacity() + int64(more)
		}
	}
	return extended
}

func (req *requirement) safeConflict(l *Limit) string {
	switch inFlight := l.Algorithm == headgate.Concurrency; {
	case req.safe == safeRate && inFlight:
		return "a limit on requests over time, like safe, or no safe: " +
			"safe replaces every limit, and does not count requests in flight"
	case req.safe == safeConcurrency && !inFlight:
		return "a limit on requests in flight, like safe, or no safe: " +
			"safe replaces every limit, and its slots would never be released"
	}
	return ""
}

func (req *requirement) splitConflict(l *Limit) string {
	parts := int64(req.split)
	switch {
	case parts < 2:
		return ""
	case l.Algorithm == headgate.LeakyBucket:
		return "another algorithm, or no split: each part would space requests on its own"
	case l.Count < parts || l.Capacity()/parts < req.cost:
		return "at least " + strconv.FormatInt(req.cost*parts, 10) + " units, so that each of the " +
			strconv.Itoa(req.split) + " parts has room for the cost of a request, " + strconv.FormatInt(req.cost, 10)
	}
	share := l.Limit // of each part
	share.Count /= parts
	if share.Burst != 0 {
		share.Burst = (share.Burst + parts - 1) / parts
	}
	if share.Validate() != nil {
		return "a smaller burst, or no split: each of the " + strconv.Itoa(req.split) + " parts would take too long to refill"
	}
	return ""
}

// canDelay reports whether requests can be delayed under an algorithm. This requires an algorithm that restores units
// at a steady rate: a delayed request takes its units in advance, and waits until they are restored.
func canDelay(a headgate.Algorithm) bool {
	return a == headgate.TokenBucket || a == headgate.GCRA || a == headgate.LeakyBucket
}

// Requirements say which limits registered clients can have under a set of rules.
type Requirements struct {
	byRule      map[string]*requirement                  // by the id of the rule
	byAttribute map[headgate.Attribute][]ruleRequirement // by an attribute of the rule's key, without duplicates
	unique      map[requirement]*requirement             // lets rules share equal requirements, to save memory
}

// NewRequirements returns the requirements of valid rules.
func NewRequirements(rules []Rule) *Requirements {
	req := &Requirements{
		byRule:      make(map[string]*requirement, len(rules)),
		byAttribute: map[headgate.Attribute][]ruleRequirement{},
		unique:      map[requirement]*requirement{},
	}
	var work yield.Yielder
	for i := range rules {
		work.Step()
		req.add(&rules[i])
	}
	return req
}

// Since returns the requirements that are new compared with other. Requirements for single rules are always included.
func (req *Requirements) Since(other *Requirements) *Requirements {
	added := &Requirements{byRule: req.byRule, byAttribute: map[headgate.Attribute][]ruleRequirement{}}
	for a, list := range req.byAttribute {
		for _, required := range list {
			same := func(o ruleRequirement) bool { return *o.requirement == *required.requirement }
			if !slices.ContainsFunc(other.byAttribute[a], same) {
				added.byAttribute[a] = append(added.byAttribute[a], required)
			}
		}
	}
	return added
}

// AnyLimit reports whether clients may have any limits. Limits of a client for a single rule are not considered.
func (req *Requirements) AnyLimit() bool { return len(req.byAttribute) == 0 }

// Check reports all problems of a client, including its limits that cannot be used under the rules. The error is an
// *Error.
func (req *Requirements) Check(c Client) error {
	var p problems
	at := &location{name: "client"}
	if c.validate(at, &p); p.count() == 0 {
		req.check(c.WithDefaults(), at, &p)
	}
	return p.err()
}

// Conflicts returns a problem for each limit of a valid client that cannot be used under the rules. The paths begin at
// the client.
func (req *Requirements) Conflicts(c *Client) []Problem {
	var p problems
	req.check(c, nil, &p)
	return p.list
}

// A ruleRequirement is a requirement with the id of one of its rules, for messages.
type ruleRequirement struct {
	*requirement

	rule string
}

// add adds the requirement of a rule.
func (req *Requirements) add(r *Rule) {
	if r.Unlimited || r.Block || len(r.Key) == 0 {
		return
	}
	required := newRequirement(r)
	shared := req.unique[required]
	if shared == nil {
		shared = new(requirement)
		*shared = required
		req.unique[required] = shared
	}
	req.byRule[r.ID] = shared
	attributes := r.Key
	if r.Fallback == FallbackIP {
		attributes = append(slices.Clone(r.Key), headgate.Attribute{Kind: headgate.AttrIP})
	}
	for _, a := range attributes {
		list := req.byAttribute[a]
		if !slices.ContainsFunc(list, func(o ruleRequirement) bool { return o.requirement == shared }) {
			req.byAttribute[a] = append(list, ruleRequirement{shared, r.ID})
		}
	}
}

// check adds the limits of a client that cannot be used under the rules to p.
func (req *Requirements) check(c *Client, at *location, p *problems) {
	for i := range c.Limits {
		if value, want := req.conflict(c, &c.Limits[i]); want != "" {
			p.add(at.field("limits").element(i), value, want)
		}
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		here := at.field("rules").element(i)
		required, ok := req.byRule[r.ID]
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

// conflict checks a client's limit under all rules that count by an attribute of the client. It returns the same as
// requirement.conflict, for the first rule under which the limit cannot be used.
func (req *Requirements) conflict(c *Client, l *Limit) (value, want string) {
	for _, t := range c.Attributes {
		for i := range req.byAttribute[t.Attribute] {
			required := &req.byAttribute[t.Attribute][i]
			if value, want := required.conflict(l); want != "" {
				return value, want + " (under rule " + required.rule + ")"
			}
		}
	}
	return "", ""
}
