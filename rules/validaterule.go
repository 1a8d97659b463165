package rules

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/internal/pattern"
)

// validate adds the problems of a rule to p. It does not compare the rule with other rules.
func (r *Rule) validate(at *location, p *problems) {
	if !isName(r.ID, "-_.") {
		p.add(at.field("id"), Quote(r.ID), wantName)
	}
	if r.Namespace != "" && !isName(r.Namespace, "-_.") {
		p.add(at.field("namespace"), Quote(r.Namespace), wantName)
	}
	validateText(at.field("description"), p, r.Description)
	if r.Priority < -MaxPriority || r.Priority > MaxPriority {
		p.add(at.field("priority"), strconv.Itoa(r.Priority), strconv.Itoa(-MaxPriority)+" to "+strconv.Itoa(MaxPriority))
	}
	new(conditionValidator).condition(&r.When, at.field("when"), p)
	validateKey(r.Key, at.field("key"), p)
	validateEnum(at.field("case"), p, int(r.Case), strictnessNames)
	validateEnum(at.field("trailing_slash"), p, int(r.TrailingSlash), strictnessNames)
	validateEnum(at.field("owner"), p, int(r.Owner), ownerNames)
	validateEnum(at.field("fallback"), p, int(r.Fallback), fallbackNames)
	validateEnum(at.field("consistency"), p, int(r.Consistency), consistencyNames)
	validateEnum(at.field("scope"), p, int(r.Scope), scopeNames)
	validateEnum(at.field("partition"), p, int(r.Partition), partitionNames)
	validateEnum(at.field("unregistered"), p, int(r.Unregistered), unregisteredNames)
	r.validateOwner(at, p)
	r.Cost.validate(at.field("cost"), p)
	r.validateOnLimit(at, p)
	r.validateFailure(at, p)
	if r.Split < 0 || r.Split > headgate.MaxSplit {
		p.add(at.field("split"), strconv.Itoa(r.Split), "0 (not split) to "+strconv.Itoa(headgate.MaxSplit))
	}
	if r.Split > 1 && r.Consistency != ByStore && r.Consistency != Exact {
		p.add(at.field("split"), strconv.Itoa(r.Split),
			"consistency: exact; other modes do not call one server for every request")
	}
	if r.Split > 1 && r.OnLimit.Action == Delay {
		p.add(at.field("split"), strconv.Itoa(r.Split), "on_limit: reject or no split: each part would have its own queue")
	}
	if sharesConsumption(r.Consistency) && r.OnLimit.Action == Delay {
		p.add(at.field("consistency"), r.Consistency.String(),
			"exact or local for on_limit: delay: a node does not know the queues of other nodes")
	}
	r.validateScope(at, p)
	r.validateAllLimits(at, p)
}

// validateScope refuses settings that cannot be combined with limits that regions share, or with a partition policy.
func (r *Rule) validateScope(at *location, p *problems) {
	if r.Partition != headgate.PartitionFull && r.Consistency != Async && r.Consistency != Gossip {
		p.add(at.field("partition"), r.Partition.String(),
			"consistency: async or gossip: in other modes an isolated node uses on_failure")
	}
	if r.Scope != ScopeGlobal {
		return
	}
	switch {
	case r.Consistency == Gossip || r.Consistency == Local:
		p.add(at.field("scope"), r.Scope.String(),
			"consistency: exact, lease or async: regions exchange counts through the global store")
	case r.Split > 1:
		p.add(at.field("scope"), r.Scope.String(), "no split: the usage of other regions is charged to one counter")
	case r.OnLimit.Action == Delay:
		p.add(at.field("scope"), r.Scope.String(), "on_limit: reject: a region does not know the queues of the others")
	}
}

var wantName = "letters, digits, '-', '_' and '.', beginning with a letter or a digit, at most " +
	strconv.Itoa(MaxName) + " bytes"

// isName reports whether a text is a valid id. It must consist of letters, digits and the given marks, and begin with a
// letter or a digit.
func isName(text, marks string) bool {
	for i := range len(text) {
		c := text[i]
		if !isAlphanumeric(c) && (i == 0 || strings.IndexByte(marks, c) < 0) {
			return false
		}
	}
	return text != "" && len(text) <= MaxName
}

func isAlphanumeric(c byte) bool { return isLetter(c) || c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func validateText(at *location, p *problems, text string) {
	if len(text) > MaxText || !utf8.ValidString(text) {
		p.add(at, Quote(text), "at most "+strconv.Itoa(MaxText)+" bytes of UTF-8")
	}
}

func validateEnum(at *location, p *problems, n int, words []string) {
	if n >= len(words) {
		p.add(at, strconv.Itoa(n), oneOf(words))
	}
}

func validateKey(key []headgate.Attribute, at *location, p *problems) {
	if len(key) > MaxKey {
		p.add(at, strconv.Itoa(len(key))+" attributes", "at most "+strconv.Itoa(MaxKey))
		return
	}
	for i, a := range key {
		if a.Kind == headgate.AttrClient {
			p.add(at.element(i), Quote(a.String()), "attributes that name a client: all clients with the same "+a.Name+
				" would have one counter together; for limits by it use overrides with when: { "+a.String()+": … }")
			continue
		}
		validateAttribute(a, at.element(i), p)
		for j := range i {
			if key[j] == a {
				p.add(at.element(i), Quote(a.String()), "each attribute once")
			}
		}
	}
}

// validateAttribute adds the problem of an invalid request attribute to p.
func validateAttribute(a headgate.Attribute, at *location, p *problems) {
	validateParsed(a, headgate.ParseAttribute, at, p)
}

// validateParsed adds a problem to p if parse does not return the same attribute for the attribute's text.
func validateParsed(a headgate.Attribute, parse func(string) (headgate.Attribute, error), at *location, p *problems) {
	parsed, err := parse(a.String())
	if err != nil {
		_, want := Explain(err)
		p.add(at, Quote(a.String()), want)
	} else if parsed != a {
		p.add(at, Quote(a.String()), parsed.String())
	} else if want := wantAttributeName(a); want != "" {
		p.add(at, Quote(a.String()), want)
	}
}

// wantAttributeName returns "" if a request can have an attribute with this name, and otherwise a description of valid
// names.
func wantAttributeName(a headgate.Attribute) string {
	switch a.Kind {
	case headgate.AttrHeader, headgate.AttrCookie:
		if !pattern.IsToken(a.Name) {
			return "the name of a " + a.Kind.String() + ": letters, digits and symbols such as - and _, without spaces"
		}
	}
	if !utf8.ValidString(a.Name) || strings.ContainsFunc(a.Name, unicode.IsControl) {
		return "a name without control characters"
	}
	return ""
}

func (r *Rule) validateOwner(at *location, p *problems) {
	if len(r.Key) > 0 || r.Unlimited || r.Block {
		return
	}
	if r.Owner == OwnerClient {
		p.add(at.field("owner"), r.Owner.String(),
			"a key that identifies the client; without one, all clients share a single counter")
	}
	if r.Fallback != FallbackIP {
		p.add(at.field("fallback"), r.Fallback.String(), "none: the rule has no key")
	}
	if r.Unregistered == UnregisteredDeny {
		p.add(at.field("unregistered"), r.Unregistered.String(), "a key, by which clients are looked up")
	}
}

func (r *Rule) validateOnLimit(at *location, p *problems) {
	if int(r.OnLimit.Action) >= len(actionNames) {
		p.add(at.field("on_limit"), strconv.Itoa(int(r.OnLimit.Action)), oneOf(actionNames))
	}
	if wait := r.OnLimit.MaxWait; r.OnLimit.Action == Delay && (wait <= 0 || wait > MaxDelay) {
		p.add(at.field("on_limit"), wait.String(), "a delay of more than 0 and at most "+FormatDuration(MaxDelay))
	} else if r.OnLimit.Action != Delay && wait != 0 {
		p.add(at.field("on_limit"), r.OnLimit.Action.String()+" "+wait.String(), "a time only with delay")
	}
	if r.Status != 0 && r.Status != 429 && r.Status != 503 {
		p.add(at.field("status"), strconv.Itoa(r.Status), "429 (too many requests) or 503 (service unavailable)")
	}
}

func (r *Rule) validateFailure(at *location, p *problems) {
	if r.OnFailure > headgate.Local {
		p.add(at.field("on_failure"), r.OnFailure.String(), "open, closed or local")
	}
	if r.Safe == nil {
		return
	}
	if err := r.Safe.Validate(); err != nil {
		value, want := Explain(err)
		p.add(at.field("safe"), value, want)
		return
	}
	if r.OnFailure != headgate.Local {
		p.add(at.field("safe"), r.Safe.String(), "on_failure: local, the only policy that uses it")
	}
}

// A conditionValidator validates a condition. It counts the parts of all nested conditions, to enforce their bounds.
type conditionValidator struct{ depth, tests, values int }

// condition adds the problems of a condition to p.
func (v *conditionValidator) condition(c *Condition, at *location, p *problems) {
	if v.depth == MaxDepth {
		p.add(at, "", "conditions nested at most "+strconv.Itoa(MaxDepth)+" deep")
		return
	}
	v.depth++
	defer func() { v.depth-- }()
	for i := range c.Tests {
		v.test(&c.Tests[i], at, p)
	}
	v.conditions(c.Any, "any", at, p)
	v.conditions(c.All, "all", at, p)
	v.conditions(c.Not, "not", at, p)
}

func (v *conditionValidator) conditions(list []Condition, name string, at *location, p *problems) {
	if len(list) == 0 {
		return
	}
	at = at.field(name)
	for i := range list {
		here := at.element(i)
		if list[i].empty() {
			p.add(here, "", "at least one attribute: an empty condition is true of every request")
		}
		v.condition(&list[i], here, p)
	}
}

func (v *conditionValidator) test(t *Test, at *location, p *problems) {
	at = at.field(t.Attribute.String())
	validateParsed(t.Attribute, ParseTested, at, p)
	if len(t.Values) == 0 {
		p.add(at, "", `a value, a list of values, or "*" for any`)
	}
	v.tests++
	if v.tests == MaxTests+1 {
		p.add(at, strconv.Itoa(v.tests)+" attributes", "at most "+strconv.Itoa(MaxTests)+" in one condition")
	}
	for i, value := range t.Values {
		v.values++
		if v.values == MaxValues+1 {
			p.add(at, strconv.Itoa(v.values)+" values",
				"at most "+strconv.Itoa(MaxValues)+" in one condition; register clients instead")
		}
		if v.values > MaxValues {
			return
		}
		if _, want := pattern.Parse(t.Attribute.Kind, value); want != "" {
			p.add(at.element(i), Quote(value), want)
		}
	}
}
