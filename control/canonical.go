package control

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A node that starts reads the bodies of all clients, which may be a million, and most are of the plainest form that
// ClientBody writes:
//
//	{"id":"acme","attributes":{"user":"acme"},"limits":["100/s"]}
//
// readPlain reads that form and nothing else, many times faster than what reads all forms and can say what is wrong. What it
// reads, that reads as the same; a test compares them.

// A plain is a text of the plain form as it is read.
type plain struct {
	rest string
	bad  bool
}

// take reports whether the text goes on with this, and goes past it.
func (p *plain) take(word string) bool {
	rest, ok := strings.CutPrefix(p.rest, word)
	p.rest = rest
	return ok
}

// must is take for what has to come.
func (p *plain) must(word string) { p.bad = !p.take(word) || p.bad }

// text reads a string of printable ASCII without escapes.
func (p *plain) text() string {
	p.must(`"`)
	for i := range len(p.rest) {
		switch c := p.rest[i]; {
		case c == '"':
			s := p.rest[:i]
			p.rest = p.rest[i+1:]
			return s
		case c == '\\' || c < ' ' || c > '~':
			p.bad = true
			return ""
		}
	}
	p.bad = true
	return ""
}

// texts reads a list of at least one string, behind its bracket.
func (p *plain) texts() []string {
	list := []string{p.text()}
	for !p.bad && p.take(",") {
		list = append(list, p.text())
	}
	p.must("]")
	return list
}

// values reads a string, or a list of them.
func (p *plain) values() []string {
	if p.take("[") {
		return p.texts()
	}
	return []string{p.text()}
}

// readPlain reads a client of the plain form. It is false if it is not of that form.
func readPlain(body []byte) (rules.Client, bool) {
	// One copy, of which all parts of the client are parts.
	p := &plain{rest: string(body)}
	var c rules.Client
	p.must(`{"id":`)
	c.ID = p.text()
	if p.take(`,"attributes":{`) {
		p.attributes(&c)
	}
	if p.take(`,"limits":[`) {
		for _, text := range p.texts() {
			limit, err := headgate.ParseLimit(text)
			p.bad = p.bad || err != nil
			c.Limits = append(c.Limits, rules.Limit{Limit: limit})
		}
	}
	c.Unlimited = p.take(`,"unlimited":true`)
	c.Block = p.take(`,"block":true`)
	p.must("}")
	return c, !p.bad && p.rest == ""
}

// attributes reads a mapping of at least one, behind its brace.
func (p *plain) attributes(c *rules.Client) {
	for {
		name := p.text()
		p.must(":")
		if attribute, property, err := rules.ParseClientAttribute(name); property {
			twice := slices.ContainsFunc(c.Properties, func(o rules.Property) bool { return o.Name == name })
			p.bad = p.bad || twice
			c.Properties = append(c.Properties, rules.Property{Name: name, Value: p.text()})
		} else {
			twice := slices.ContainsFunc(c.Attributes, func(t rules.Test) bool { return t.Attribute == attribute })
			p.bad = p.bad || err != nil || twice
			c.Attributes = append(c.Attributes, rules.Test{Attribute: attribute, Values: p.values()})
		}
		if p.bad || !p.take(",") {
			p.must("}")
			return
		}
	}
}
