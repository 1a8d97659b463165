package rules_test

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// packageExample is the example of the package comment.
func packageExample(path, user headgate.Attribute) error {
	rule := rules.Rule{
		ID:     "search-per-user",
		When:   rules.Condition{Tests: []rules.Test{{Attribute: path, Values: []string{"/search/**"}}}},
		Key:    []headgate.Attribute{user},
		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("10/s burst 20")}},
	}
	return rules.Validate([]rules.Rule{rule})
}

var _ = packageExample
