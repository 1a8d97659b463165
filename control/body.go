package control

import (
	"cmp"
	"slices"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
)

// bodyName is what messages call a body that is read.
const bodyName = "body.json"

// RuleBody returns the body of a rule: JSON as in rules files, on one line, and the same for all rules that mean the same
// in the same words. The attributes of a condition are in the order of their names.
func RuleBody(r rules.Rule) []byte {
	r.When = sortedCondition(r.When)
	r.Overrides = slices.Clone(r.Overrides)
	for i := range r.Overrides {
		r.Overrides[i].When = sortedCondition(r.Overrides[i].When)
	}
	return file.RuleJSON(&r)
}

// ParseRule reads the body of a rule. The rule has been validated on its own. The error is a *source.Error whose problems
// have paths such as "limits[0]".
func ParseRule(body []byte) (rules.Rule, error) { return file.ReadRule(bodyName, body) }

// ClientBody returns the body of a client, as RuleBody does of a rule.
func ClientBody(c rules.Client) []byte {
	c.Attributes = sortedTests(c.Attributes)
	c.Properties = slices.Clone(c.Properties)
	slices.SortFunc(c.Properties, func(a, b rules.Property) int { return cmp.Compare(a.Name, b.Name) })
	return file.ClientJSON(&c)
}

// ParseClient reads the body of a client. Its form is right then; whether its limits and values can be used is for
// rules.Set.Check and rules.Registry.Put to say. The error is as that of ParseRule.
func ParseClient(body []byte) (rules.Client, error) {
	if c, ok := readPlain(body); ok {
		return c, nil
	}
	return file.ReadClient(bodyName, body)
}

func sortedCondition(c rules.Condition) rules.Condition {
	c.Tests = sortedTests(c.Tests)
	for _, list := range []*[]rules.Condition{&c.Any, &c.All, &c.Not} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i] = sortedCondition((*list)[i])
		}
	}
	return c
}

func sortedTests(tests []rules.Test) []rules.Test {
	tests = slices.Clone(tests)
	slices.SortStableFunc(tests, func(a, b rules.Test) int {
		return cmp.Compare(a.Attribute.String(), b.Attribute.String())
	})
	return tests
}
