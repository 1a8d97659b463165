package rules

import (
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules/internal/pattern"
)

// Validate reports all problems of the client that do not depend on rules. The error is an *Error.
func (c *Client) Validate() error {
	var p problems
	c.validate(&location{name: "client"}, &p)
	return p.err()
}

// validate adds the problems of the client that do not depend on rules to p. at is the client's location.
func (c *Client) validate(at *location, p *problems) {
	if !isName(c.ID, "-_.@:+") {
		p.add(at.field("id"), Quote(c.ID),
			"letters, digits and any of -_.@:+, beginning with a letter or a digit, at most "+strconv.Itoa(MaxName)+" bytes")
	}
	validateText(at.field("description"), p, c.Description)
	c.validateAttributes(at.field("attributes"), p)
	c.validateProperties(at.field("attributes"), p)
	validateExclusive(c.Limits, c.Unlimited, c.Block, false, at, p)
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
		validateExclusive(r.Limits, r.Unlimited, r.Block, true, here, p)
		validateLimits(r.Limits, here.field("limits"), p)
	}
}

func (c *Client) validateAttributes(at *location, p *problems) {
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
				p.add(here.element(j), `""`, "a value that is not empty: an empty value identifies no client")
			} else if strings.Contains(value, "*") {
				p.add(here.element(j), Quote(value), "an exact value: clients are looked up by it; for patterns use overrides")
			} else if _, want := pattern.Parse(t.Attribute.Kind, strings.ReplaceAll(value, `\`, `\\`)); want != "" {
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

// MaxClientValues is the maximum number of attribute values of one client.
const MaxClientValues = 1000

// WithDefaults returns a copy of the client with the defaults filled in.
func (c *Client) WithDefaults() *Client {
	filled := *c
	filled.Limits = nameLimits(c.Limits)
	filled.Properties = sortedProperties(c.Properties)
	filled.Rules = slices.Clone(c.Rules)
	for i := range filled.Rules {
		filled.Rules[i].Limits = nameLimits(filled.Rules[i].Limits)
	}
	filled.Attributes = slices.Clone(c.Attributes)
	if len(filled.Attributes) == 0 {
		filled.Attributes = []Test{{headgate.Attribute{Kind: headgate.AttrUser}, []string{c.ID}}}
	}
	for i := range filled.Attributes {
		t := &filled.Attributes[i]
		original := t.Values
		t.Values = make([]string, 0, len(original))
		for _, value := range original {
			// Two notations may mean the same value.
			if value = pattern.CanonicalValue(t.Attribute.Kind, value); !slices.Contains(t.Values, value) {
				t.Values = append(t.Values, value)
			}
		}
	}
	return &filled
}
