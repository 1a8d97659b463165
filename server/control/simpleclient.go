package control

import (
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A node that starts reads the bodies of all clients, possibly a million. Most of them have a simple form:
//
//	{"id":"acme","attributes":{"user":"acme"},"limits":["100/s"]}
//
// parseSimpleClient reads only this form, and is many times faster than the general parser.

// A simpleParser parses the simple form.
type simpleParser struct {
	rest   string // not parsed yet
	failed bool   // the body does not have the simple form
}

// skip skips text if the rest begins with it, and reports whether it did.
func (p *simpleParser) skip(text string) bool {
	rest, ok := strings.CutPrefix(p.rest, text)
	p.rest = rest
	return ok
}

// expect skips a text that must be there.
func (p *simpleParser) expect(text string) { p.failed = !p.skip(text) || p.failed }

// readText reads a string of printable ASCII without escapes.
func (p *simpleParser) readText() string {
	p.expect(`"`)
	for i := range len(p.rest) {
		switch c := p.rest[i]; {
		case c == '"':
			s := p.rest[:i]
			p.rest = p.rest[i+1:]
			return s
		case c == '\\' || c < ' ' || c > '~':
			p.failed = true
			return ""
		}
	}
	p.failed = true
	return ""
}

// readTexts reads a list of at least one string, after its "[".
func (p *simpleParser) readTexts() []string {
	list := []string{p.readText()}
	for !p.failed && p.skip(",") {
		list = append(list, p.readText())
	}
	p.expect("]")
	return list
}

// readValues reads a string or a list of strings.
func (p *simpleParser) readValues() []string {
	if p.skip("[") {
		return p.readTexts()
	}
	return []string{p.readText()}
}

// parseSimpleClient parses a client. It returns false if the client does not have the simple form.
func parseSimpleClient(body []byte) (rules.Client, bool) {
	// body is copied once: all strings of the client are parts of this copy.
	p := &simpleParser{rest: string(body)}
	var c rules.Client
	p.expect(`{"id":`)
	c.ID = p.readText()
	if p.skip(`,"attributes":{`) {
		p.readAttributes(&c)
	}
	if p.skip(`,"limits":[`) {
		for _, text := range p.readTexts() {
			limit, err := headgate.ParseLimit(text)
			p.failed = p.failed || err != nil
			c.Limits = append(c.Limits, rules.Limit{Limit: limit})
		}
	}
	c.Unlimited = p.skip(`,"unlimited":true`)
	c.Block = p.skip(`,"block":true`)
	p.expect("}")
	return c, !p.failed && p.rest == ""
}

// readAttributes reads a mapping of at least one attribute, after its "{".
func (p *simpleParser) readAttributes(c *rules.Client) {
	for {
		name := p.readText()
		p.expect(":")
		if attribute, property, err := rules.ParseClientAttribute(name); property {
			duplicate := slices.ContainsFunc(c.Properties, func(o rules.Property) bool { return o.Name == name })
			p.failed = p.failed || duplicate
			c.Properties = append(c.Properties, rules.Property{Name: name, Value: p.readText()})
		} else {
			duplicate := slices.ContainsFunc(c.Attributes, func(t rules.Test) bool { return t.Attribute == attribute })
			p.failed = p.failed || err != nil || duplicate
			c.Attributes = append(c.Attributes, rules.Test{Attribute: attribute, Values: p.readValues()})
		}
		if p.failed || !p.skip(",") {
			p.expect("}")
			return
		}
	}
}
