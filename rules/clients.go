package rules

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// validate says what is wrong with a client by itself.
func (c *Client) validate(at *place, p *problems) {
	if !isName(c.ID, "-_.@:+") {
		p.add(at.field("id"), Quote(c.ID), "letters, digits and any of -_.@:+, beginning with a letter or a digit, at most 128 bytes")
	}
	validateText(at.field("description"), p, c.Description)
	c.validateAttributes(at.field("attributes"), p)
	c.validateProperties(at.field("attributes"), p)
	validateOne(c.Limits, c.Unlimited, c.Block, false, at, p)
	validateLimits(c.Limits, at.field("limits"), p)
	for i := range c.Rules {
		r := &c.Rules[i]
		here := at.field("rules").element(i)
		if !isName(r.ID, "-_.") {
			p.add(here.field("id"), Quote(r.ID), "the id of a rule")
		}
		if slices.ContainsFunc(c.Rules[:i], func(o ClientRule) bool { return o.ID == r.ID }) {
			p.add(here.field("id"), Quote(r.ID), "each rule once")
		}
		validateOne(r.Limits, r.Unlimited, r.Block, true, here, p)
		validateLimits(r.Limits, here.field("limits"), p)
	}
}

func (c *Client) validateAttributes(at *place, p *problems) {
	values := 0
	for i := range c.Attributes {
		t := &c.Attributes[i]
		here := at.field(t.Attribute.String())
		validateAttribute(t.Attribute, here, p)
		if slices.ContainsFunc(c.Attributes[:i], func(o Test) bool { return o.Attribute == t.Attribute }) {
			p.add(here, "", "each attribute once, with a list if it has several values")
		}
		if len(t.Values) == 0 {
			p.add(here, "", "a value, or a list of values")
		}
		for j, value := range t.Values {
			if value == "" {
				p.add(here.element(j), `""`, "a value: an empty one names nobody")
			} else if strings.Contains(value, "*") {
				p.add(here.element(j), Quote(value), "an exact value, since clients are looked up; for patterns use overrides")
			} else if _, want := readPattern(t.Attribute.Kind, strings.ReplaceAll(value, `\`, `\\`)); want != "" {
				p.add(here.element(j), Quote(value), want)
			}
			if slices.Contains(t.Values[:j], value) {
				p.add(here.element(j), Quote(value), "each value once")
			}
		}
		values += len(t.Values)
	}
	if values > MaxClientValues {
		p.add(at, strconv.Itoa(values)+" values", "at most "+strconv.Itoa(MaxClientValues))
	}
}

// MaxClientValues is by how many values one client may be known.
const MaxClientValues = 1000

// normal returns a copy with the defaults filled in.
func (c *Client) normal() *Client {
	made := *c
	made.Limits = nameLimits(c.Limits)
	made.Properties = sortedProperties(c.Properties)
	made.Rules = slices.Clone(c.Rules)
	for i := range made.Rules {
		made.Rules[i].Limits = nameLimits(made.Rules[i].Limits)
	}
	made.Attributes = slices.Clone(c.Attributes)
	if len(made.Attributes) == 0 {
		made.Attributes = []Test{{headgate.Attribute{Kind: headgate.AttrUser}, []string{c.ID}}}
	}
	for i := range made.Attributes {
		t := &made.Attributes[i]
		given := t.Values
		t.Values = make([]string, 0, len(given))
		for _, value := range given {
			// One value may be written in several ways.
			if value = usual(t.Attribute.Kind, value); !slices.Contains(t.Values, value) {
				t.Values = append(t.Values, value)
			}
		}
	}
	return &made
}

// usual returns a value in the form that subjects have it in.
func usual(kind headgate.AttributeKind, value string) string {
	switch kind {
	case headgate.AttrHost:
		return usualHost(value)
	case headgate.AttrMethod:
		return strings.ToUpper(value)
	case headgate.AttrIP:
		if net := parseNet(value); net.IsSingleIP() {
			return net.Addr().String()
		} else if net.IsValid() {
			return net.String()
		}
	}
	return value
}

// Check says whether the limits of a client can be used under the rules of the set that they would be used under. The
// error is an *Error. Compile has asked this of the clients it was given.
func (s *Set) Check(c Client) error {
	var p problems
	at := &place{name: "client"}
	if c.validate(at, &p); len(p.list) == 0 {
		s.needs.check(c.normal(), at, &p)
	}
	return p.err()
}

// needs are what the rules of a set ask of clients' limits.
type needs struct {
	byRule      map[string]*need
	byAttribute map[headgate.Attribute][]namedNeed // different ones only
	all         map[need]*need                     // most rules ask the same
}

func newNeeds(rules int) needs {
	return needs{byRule: make(map[string]*need, rules), byAttribute: map[headgate.Attribute][]namedNeed{}, all: map[need]*need{}}
}

type namedNeed struct {
	*need

	rule string // one that has it
}

// add adds what a rule asks.
func (n *needs) add(r *Rule) {
	if r.Unlimited || r.Block || len(r.Key) == 0 {
		return
	}
	asks := needOf(r)
	asked := n.all[asks]
	if asked == nil {
		asked = new(need)
		*asked = asks
		n.all[asks] = asked
	}
	n.byRule[r.ID] = asked
	attributes := r.Key
	if r.Fallback == FallbackIP {
		attributes = append(slices.Clone(r.Key), headgate.Attribute{Kind: headgate.AttrIP})
	}
	for _, a := range attributes {
		list := n.byAttribute[a]
		if !slices.ContainsFunc(list, func(o namedNeed) bool { return o.need == asked }) {
			n.byAttribute[a] = append(list, namedNeed{asked, r.ID})
		}
	}
}

// check says which limits of a client cannot be used under the rules.
func (n *needs) check(c *Client, at *place, p *problems) {
	for i := range c.Limits {
		if value, want := n.refuses(c, &c.Limits[i]); want != "" {
			p.add(at.field("limits").element(i), value, want)
		}
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		here := at.field("rules").element(i)
		asked, ok := n.byRule[r.ID]
		if !ok {
			p.add(here.field("id"), Quote(r.ID), "a rule that is there, and counts clients")
			continue
		}
		for j := range r.Limits {
			if value, want := asked.refuses(&r.Limits[j]); want != "" {
				p.add(here.field("limits").element(j), value, want)
			}
		}
	}
}

// refuses says why a limit of a client cannot be used under one of the rules that it would be used under; want is empty if
// it can.
func (n *needs) refuses(c *Client, l *Limit) (value, want string) {
	for _, t := range c.Attributes {
		for i := range n.byAttribute[t.Attribute] {
			asked := &n.byAttribute[t.Attribute][i]
			if value, want := asked.refuses(l); want != "" {
				return value, want + " (under rule " + asked.rule + ")"
			}
		}
	}
	return "", ""
}
