package control

import (
	"cmp"
	"slices"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
)

// bodyName is the file name of a body in error messages. Its extension selects the JSON parser.
const bodyName = "body.json"

// RuleBody returns the body of a rule: JSON as in rules files, on one line. Two rules whose conditions differ only in
// the order of attributes have the same body.
func RuleBody(r rules.Rule) []byte {
	r.When = sortedCondition(r.When)
	r.Overrides = slices.Clone(r.Overrides)
	for i := range r.Overrides {
		r.Overrides[i].When = sortedCondition(r.Overrides[i].When)
	}
	return file.RuleJSON(&r)
}

// ParseRule reads and validates the body of a rule. It does not check the rule against other rules. The error is a
// *source.Error with paths such as "limits[0]".
func ParseRule(body []byte) (rules.Rule, error) { return file.ReadRule(bodyName, body) }

// ClientBody returns the body of a client. Two clients that differ only in the order of attributes and properties have
// the same body.
func ClientBody(c rules.Client) []byte {
	c.Attributes = sortedTests(c.Attributes)
	c.Properties = slices.Clone(c.Properties)
	slices.SortFunc(c.Properties, func(a, b rules.Property) int { return cmp.Compare(a.Name, b.Name) })
	return file.ClientJSON(&c)
}

// ParseClient reads the body of a client. It checks only the syntax: match.Set.Check and registry.Registry.Add check
// limits and attributes. The error is a *source.Error, as in ParseRule.
func ParseClient(body []byte) (rules.Client, error) {
	if c, ok := parseSimpleClient(body); ok {
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

// WithoutDefaultNames returns a registered client without the names that the registry gave to its unnamed limits. Only
// such default names begin with a digit.
func WithoutDefaultNames(c rules.Client) rules.Client {
	c.Limits = withoutDefaultNames(c.Limits)
	c.Rules = slices.Clone(c.Rules)
	for i := range c.Rules {
		c.Rules[i].Limits = withoutDefaultNames(c.Rules[i].Limits)
	}
	return c
}

func withoutDefaultNames(limits []rules.Limit) []rules.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		if name := limits[i].Name; name != "" && name[0] >= '0' && name[0] <= '9' {
			limits[i].Name = ""
		}
	}
	return limits
}
