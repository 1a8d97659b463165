package rules

import (
	"slices"

	"github.com/headgate/headgate"
)

// A Condition is true of a request if all of its parts are. The zero Condition has none and is true of every request.
type Condition struct {
	// Tests look at one attribute each. All must hold.
	Tests []Test
	// Any are conditions of which at least one must be true, if there are any.
	Any []Condition
	// All are conditions that must all be true.
	All []Condition
	// Not are conditions none of which may be true.
	Not []Condition
}

// A Test holds if the request has the attribute and its value is one of Values.
//
// A value is exact, or a pattern. In patterns '*' stands for any characters, in a path for any but '/'. As a segment of a
// path '**' stands for any number of segments, none included: "/search/**" is true of "/search" and of all below it.
// "*.example.com" is true of all hosts below that domain, and not of the domain. "*" alone is true of any value, so that
// it asks whether there is one. A backslash takes the meaning from the character behind it. Addresses are compared as
// addresses, and may be networks: "10.0.0.0/8".
//
// Hosts and methods are compared without regard to case; a subject has hosts in lower case. GET is true of HEAD, too. Paths and
// segments are written as they are sent: "/b%C3%BCcher". Rule.Case and Rule.TrailingSlash say which paths are the same.
type Test struct {
	Attribute headgate.Attribute
	Values    []string
}

// Bounds of a Condition, everything below it included.
const (
	MaxDepth  = 8
	MaxTests  = 1000
	MaxValues = 100_000
)

// asks tells whether the condition looks at properties of clients.
func (c *Condition) asks() bool {
	asks := func(c Condition) bool { return c.asks() }
	return slices.ContainsFunc(c.Tests, func(t Test) bool { return t.Attribute.Kind == headgate.AttrClient }) ||
		slices.ContainsFunc(c.Any, asks) || slices.ContainsFunc(c.All, asks) || slices.ContainsFunc(c.Not, asks)
}

// empty tells whether the condition is true of every request.
func (c *Condition) empty() bool {
	return len(c.Tests) == 0 && len(c.Any) == 0 && len(c.All) == 0 && len(c.Not) == 0
}
