package rules

import (
	"slices"

	"github.com/headgate/headgate"
)

// A Condition is true of a request if each of its four lists is satisfied. The zero Condition is true of every request.
type Condition struct {
	// Tests test one attribute each. All of them must hold.
	Tests []Test
	// Any is a list of conditions. At least one of them must be true, unless the list is empty.
	Any []Condition
	// All is a list of conditions. All of them must be true.
	All []Condition
	// Not is a list of conditions. None of them may be true.
	Not []Condition
}

// A Test holds if the request has the attribute and its value matches one of Values.
//
// A value is exact or a pattern. In a pattern, '*' matches any characters; in the pattern of a path, it matches any
// characters except '/'. A path segment '**' matches any number of segments, including none: "/search/**" matches
// "/search" and all paths below it. "*.example.com" matches all hosts below that domain, but not the domain itself. "*"
// alone matches any value: the test holds if the attribute is present. A backslash escapes the next character.
//
// A test of ip compares addresses, not their notations, and a value may be a network: "10.0.0.0/8". The case of hosts
// and methods does not matter; a Subject must return hosts in lower case. GET also matches HEAD. Paths and segments are
// written as clients send them: "/b%C3%BCcher". Rule.Case and Rule.TrailingSlash say which paths are equal.
type Test struct {
	Attribute headgate.Attribute
	Values    []string
}

// Bounds of a Condition, including nested conditions.
const (
	MaxDepth  = 8       // levels of nested conditions
	MaxTests  = 1000    // tests of all levels together
	MaxValues = 100_000 // values of all tests together
)

// UsesProperties reports whether the condition tests properties of clients.
func (c *Condition) UsesProperties() bool {
	uses := func(c Condition) bool { return c.UsesProperties() }
	return slices.ContainsFunc(c.Tests, func(t Test) bool { return t.Attribute.Kind == headgate.AttrClient }) ||
		slices.ContainsFunc(c.Any, uses) || slices.ContainsFunc(c.All, uses) || slices.ContainsFunc(c.Not, uses)
}

// empty reports whether the condition has no parts, and is therefore true of every request.
func (c *Condition) empty() bool {
	return len(c.Tests) == 0 && len(c.Any) == 0 && len(c.All) == 0 && len(c.Not) == 0
}
