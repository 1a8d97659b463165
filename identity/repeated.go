package identity

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate"
)

// Repeated selects the value of a cookie or query parameter that is sent several times. Services differ: Go, Java and
// most cookie parsers use the first, PHP and Django the last, and Node creates a list. By sending two values, a client
// could have one identity for the rules and another one for the service.
type Repeated uint8

// The choices for repeated values.
const (
	// RefuseRepeated is for unknown services. Conditions use the first value. If the values differ, rules whose key has
	// the attribute deny the request.
	RefuseRepeated Repeated = iota
	// FirstRepeated is for services that use the first value.
	FirstRepeated
	// LastRepeated is for services that use the last value.
	LastRepeated
)

func (r Repeated) validate() error {
	if r > LastRepeated {
		return fmt.Errorf("identity: Repeated %d: want RefuseRepeated, FirstRepeated or LastRepeated", r)
	}
	return nil
}

// Repeats reports whether an attribute is ambiguous: the service may read another value than the rules. A cookie, query
// parameter or header is ambiguous if it has several different values and Config.Repeated is RefuseRepeated. A cookie
// or parameter is also ambiguous if it has a character that services read in different ways, such as a control
// character, a semicolon or a quote. Other attributes are never ambiguous.
func (a *Attributes) Repeats(attr headgate.Attribute) bool {
	if !a.hasRequest() {
		return false
	}
	switch attr.Kind {
	case headgate.AttrHeader:
		return a.refusesRepeated() && attr.Name != nameCookie.lower &&
			linesDiffer(a.endToEndLines(*a.identifier.names.get(attr.Name)))
	case headgate.AttrCookie:
		return a.repeatsCookie(attr.Name)
	case headgate.AttrQuery:
		return a.repeatsParameter(attr.Name)
	default:
		return false
	}
}

func (a *Attributes) refusesRepeated() bool { return a.identifier.config.Repeated == RefuseRepeated }

func linesDiffer(lines []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool { return trimAnySpace(line) != trimAnySpace(lines[0]) })
}

func (a *Attributes) repeatsCookie(name string) bool {
	lines, err := a.cookies()
	if err != nil {
		return false // the request is malformed
	}
	first, found, refusesRepeated := "", false, a.refusesRepeated()
	for _, line := range lines {
		c := cookieScanner{rest: line, name: name}
		for value, ok := c.next(); ok; value, ok = c.next() {
			if c.ambiguous || refusesRepeated && found && value != first {
				return true
			}
			first, found = value, true
		}
	}
	return false
}

func (a *Attributes) repeatsParameter(name string) bool {
	p := a.parameters(name)
	first, found := p.next()
	refusesRepeated := a.refusesRepeated()
	for value, ok := first, found; ok; value, ok = p.next() {
		if refusesRepeated && value != first {
			return true
		}
	}
	return p.ambiguous
}
