package match_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

func TestShadowedChangesOnlyTheChosenRules(t *testing.T) {
	limit, err := headgate.ParseLimit("10/s")
	if err != nil {
		t.Fatal(err)
	}
	limits := []rules.Limit{{Limit: limit}}
	set, err := match.Compile([]rules.Rule{
		{ID: "a", Limits: limits},
		{ID: "b", Limits: limits},
		{ID: "c", Limits: limits, OnLimit: rules.OnLimit{Action: rules.Shadow}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, count := set.Shadowed(func(r *rules.Rule) bool { return r.ID != "b" })
	if count != 1 {
		t.Errorf("got %d changed rules, want 1: c is a shadow rule already", count)
	}
	for id, want := range map[string]rules.Action{"a": rules.Shadow, "b": rules.Reject, "c": rules.Shadow} {
		m, ok := got.MatchRule(id, rules.Attributes{})
		if _, simple := m.Simple(); !ok || m.Rule.OnLimit.Action != want || simple != (want == rules.Reject) {
			t.Errorf("rule %s: got %v, simple %v, want %v", id, m.Rule.OnLimit, simple, want)
		}
	}
	if action := set.Rule("a").OnLimit.Action; action != rules.Reject {
		t.Errorf("the original set: got %v, want reject", action)
	}
	if same, count := set.Shadowed(func(*rules.Rule) bool { return false }); same != set || count != 0 {
		t.Errorf("no rule chosen: got another set and %d changes", count)
	}
}
