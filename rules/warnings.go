package rules

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// Warnings returns warnings about valid rules, with their paths in a file. It warns about path conditions of rules with
// StrictExact: if the service treats other notations of the path as equal, clients can use them to evade the rule.
func Warnings(rules []Rule) []Problem {
	var warnings []Problem
	for i := range rules {
		r := &rules[i]
		if r.Disabled || r.Unlimited {
			continue // clients have no reason to evade this rule
		}
		warnings = appendWarnings(warnings, r, &r.When, "rules["+strconv.Itoa(i)+"].when")
	}
	return warnings
}

// appendWarnings appends the warnings about a condition, whose path in the file is at. It skips conditions in Not: a
// notation that they do not match does not evade the rule.
func appendWarnings(warnings []Problem, r *Rule, c *Condition, at string) []Problem {
	for i := range c.Tests {
		t := &c.Tests[i]
		if t.Attribute.Kind != headgate.AttrPath {
			continue
		}
		for _, value := range t.Values {
			if others, want := unmatchedPaths(r, value); others != "" {
				warnings = append(warnings, Problem{
					Path: at + ".path", Value: Quote(value),
					Want: want + ", unless the service treats " + others +
						" as different paths: they do not match rule " + r.ID,
				})
				break // one warning per test
			}
		}
	}
	for i := range c.Any {
		warnings = appendWarnings(warnings, r, &c.Any[i], at+".any["+strconv.Itoa(i)+"]")
	}
	for i := range c.All {
		warnings = appendWarnings(warnings, r, &c.All[i], at+".all["+strconv.Itoa(i)+"]")
	}
	return warnings
}

// unmatchedPaths returns paths that the rule does not match, but that a service may treat as equal to a path that the
// rule does match. want is the settings with which the rule would match them.
func unmatchedPaths(r *Rule, value string) (others, want string) {
	exact := !strings.HasSuffix(value, "*") && !strings.HasSuffix(value, "/")
	plain, _, _ := strings.Cut(value, "*")
	upper := strings.ToUpper(plain)
	caseMatters := upper != plain && (exact || r.Block)
	var paths, fields []string
	if exact && r.TrailingSlash == StrictExact {
		paths, fields = append(paths, value+"/"), append(fields, "trailing_slash: ignore")
	}
	if caseMatters && r.Case == StrictExact {
		paths, fields = append(paths, upper+value[len(plain):]), append(fields, "case: ignore")
	}
	return strings.Join(paths, " and "), strings.Join(fields, " and ")
}
