package identity

import (
	"fmt"

	"github.com/headgate/headgate"
)

// Repeated says which value counts of a cookie or a parameter of the query that is there several times. Services differ: Go,
// Java and most that read cookies take the first, PHP and Django the last, and Node makes a list of them. Who sends two could
// be one client here and another one there.
type Repeated uint8

// What becomes of repeated values.
const (
	RefuseRepeated Repeated = iota // conditions see the first, and Attributes.Repeats tells rules that count by it to deny
	FirstRepeated                  // the first; right only if the service does so too
	LastRepeated                   // the last
)

func (r Repeated) validate() error {
	if r > LastRepeated {
		return fmt.Errorf("identity: Repeated %d: want RefuseRepeated, FirstRepeated or LastRepeated", r)
	}
	return nil
}

// Repeats reports whether an attribute has no single value, so that the service may see another client than we do: a cookie, a
// parameter of the query or a header that is there several times with different values, unless Config.Repeated says which one
// counts; or a cookie or parameter that services read in different ways, such as one with a control character, a semicolon or
// a quote in it. It is false for all other attributes.
func (a *Attributes) Repeats(attr headgate.Attribute) bool {
	if !a.reads() {
		return false
	}
	switch attr.Kind {
	case headgate.AttrHeader:
		return a.refusesRepeated() && attr.Name != nameCookie.lower && differ(a.endToEnd(*a.id.names.get(attr.Name)))
	case headgate.AttrCookie:
		return a.repeatsCookie(attr.Name)
	case headgate.AttrQuery:
		return a.repeatsParameter(attr.Name)
	default:
		return false
	}
}

func (a *Attributes) refusesRepeated() bool { return a.id.config.Repeated == RefuseRepeated }

func differ(lines []string) bool {
	for i := 1; i < len(lines); i++ {
		if trimSpace(lines[i]) != trimSpace(lines[0]) {
			return true
		}
	}
	return false
}

func (a *Attributes) repeatsCookie(name string) bool {
	lines, err := a.cookies()
	if err != nil {
		return false // it is malformed
	}
	first, found, refuses := "", false, a.refusesRepeated()
	for _, line := range lines {
		c := cookies{rest: line, name: name}
		for value, ok := c.next(); ok; value, ok = c.next() {
			if c.odd || refuses && found && value != first {
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
	refuses := a.refusesRepeated()
	for value, ok := first, found; ok; value, ok = p.next() {
		if refuses && value != first {
			return true
		}
	}
	return p.odd
}
