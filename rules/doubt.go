package rules

import (
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// Doubts returns what is right in rules but may not be meant, by their paths in a file: rules that requests can get around
// where services take several paths for the same.
func Doubts(rules []Rule) []Problem {
	var found []Problem
	for i := range rules {
		r := &rules[i]
		if r.Disabled || r.Unlimited {
			continue // nobody wants to get around it
		}
		found = doubt(found, r, &r.When, "rules["+strconv.Itoa(i)+"].when")
	}
	return found
}

// doubt adds what is doubtful in a condition that must hold.
func doubt(found []Problem, r *Rule, c *Condition, at string) []Problem {
	for i := range c.Tests {
		t := &c.Tests[i]
		if t.Attribute.Kind != headgate.AttrPath {
			continue
		}
		for _, value := range t.Values {
			if others, want := around(r, value); others != "" {
				found = append(found, Problem{
					Path: at + ".path", Value: Quote(value),
					Want: want + ", or exact if the service does not take " + others + " for the same path: they are not under rule " + r.ID,
				})
				break // one of a kind will do
			}
		}
	}
	for name, list := range map[string][]Condition{"any": c.Any, "all": c.All} {
		for i := range list {
			found = doubt(found, r, &list[i], at+"."+name+"["+strconv.Itoa(i)+"]")
		}
	}
	return found
}

// around returns paths that a service may take for one that a rule names, and that the rule does not match; and what to write.
func around(r *Rule, value string) (others, want string) {
	whole := !strings.HasSuffix(value, "*") && !strings.HasSuffix(value, "/")
	plain, _, _ := strings.Cut(value, "*")
	upper := strings.ToUpper(plain)
	letters := upper != plain && (whole || r.Block)
	var paths, fields []string
	if whole && r.TrailingSlash == StrictDefault {
		paths, fields = append(paths, value+"/"), append(fields, "trailing_slash: ignore")
	}
	if letters && r.Case == StrictDefault {
		paths, fields = append(paths, upper+value[len(plain):]), append(fields, "case: ignore")
	}
	return strings.Join(paths, " and "), strings.Join(fields, " and ")
}
