package match_test

import (
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// packageExample is the example of the package comment.
func packageExample(list []rules.Rule, request rules.Subject) error {
	set, err := match.Compile(list)
	if err != nil {
		return err
	}
	for _, m := range set.Match(request, nil) {
		switch {
		case m.Effect.Denies(): // blocked
		case m.Effect == match.Limited: // take from m.Limits, under the keys of m.AppendKey
		}
	}
	return nil
}

var _ = packageExample
