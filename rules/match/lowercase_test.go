package match_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/manyrules"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// lowerCaseRules use the path in conditions, as a whole and among others, and in keys.
func lowerCaseRules() []rules.Rule {
	return []rules.Rule{
		{ID: "below", When: is(path, "/api/**"), Key: []headgate.Attribute{path}, Limits: limits("1/s", "5/m")},
		{ID: "case", When: is(path, "/**/users/"), Key: []headgate.Attribute{user, path}, Limits: limits("1/s"), TrailingSlash: rules.StrictExact},
		{ID: "star", When: is(path, "/api/*/users"), Key: []headgate.Attribute{user}, Limits: limits("1/s")},
		{ID: "list", When: is(path, "/one", "/api/v1/users"), Limits: limits("1/s")},
		{ID: "not", When: rules.Condition{Not: []rules.Condition{is(path, "/login")}}, Key: []headgate.Attribute{path}, Limits: limits("1/s")},
	}
}

// The results of a match must not change when the next request is matched.
func TestKeysOutliveTheNextMatch(t *testing.T) {
	set := setOf(t, lowerCaseRules()...)
	keys := func(r *manyrules.Request, m []match.Result) string {
		var list []byte
		for i := range m {
			list = append(m[i].AppendOwner(m[i].AppendKey(list, r, 0), r), '\n')
		}
		return string(list)
	}
	long := strings.Repeat("/long", 100)
	for _, suffix := range []string{"", long} {
		lower := &manyrules.Request{User: "alice", Path: "/api/v1" + suffix + "/users/"}
		mixed := &manyrules.Request{User: "alice", Path: "/API/v1" + strings.ToUpper(suffix) + "/Users/"}
		want := keys(lower, set.Match(lower, nil))
		set.Match(mixed, nil) // the buffer grows
		m := set.Match(mixed, nil)
		set.Match(&manyrules.Request{User: "bob", Path: "/OTHER/PATH" + suffix + "/"}, nil)
		if got := keys(mixed, m); got != want {
			t.Errorf("got keys %q, want %q", got, want)
		}
		one, _ := set.MatchRule("below", mixed)
		set.MatchRule("below", &manyrules.Request{User: "bob", Path: "/OTHER/PATH" + suffix + "/"})
		if got, want := keys(mixed, []match.Result{one}), keys(mixed, m[:1]); got != want {
			t.Errorf("MatchRule: got key %q, want %q", got, want)
		}
	}
}
