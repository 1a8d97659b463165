package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

var plan = headgate.Attribute{Kind: headgate.AttrClient, Name: "plan"}

// on returns a client on a plan.
func on(id, plan string) rules.Client {
	return rules.Client{ID: id, Properties: []rules.Property{{Name: "plan", Value: plan}}}
}

// byPlan gives clients of some plans other limits.
func byPlan() rules.Rule {
	return rules.Rule{ID: "a", Key: by(user), Limits: limits("2/h"), Overrides: []rules.Override{
		{When: is(plan, "gold"), Limits: limits("5/h")}, {When: is(plan, "banned"), Block: true},
	}}
}

func TestTheLimitOfAClientIsThatOfItsPlan(t *testing.T) {
	own := on("own", "gold")
	own.Limits = limits("7/h")
	for _, tt := range []struct {
		client rules.Client
		passes int
	}{
		{on("acme", "gold"), 5}, {on("acme", "silver"), 2}, {on("acme", "banned"), 0}, {own, 7}, {rules.Client{ID: "acme"}, 2},
	} {
		b := newBench(t, byPlan())
		if err := b.AddClient(tt.client); err != nil {
			t.Fatal(err)
		}
		if got := b.passes(rules.Attributes{user: tt.client.ID, ip: "192.0.2.1"}); got != tt.passes {
			t.Errorf("%+v: %d passed, want %d", tt.client, got, tt.passes)
		}
		// The client goes, and with it what it has consumed by whatever limit.
		if err := b.RemoveClient(context.Background(), tt.client.ID); err != nil {
			t.Fatal(err)
		}
		if got := b.passes(rules.Attributes{user: tt.client.ID, ip: "192.0.2.1"}); got != 2 {
			t.Errorf("%+v: %d passed when it was removed, want 2", tt.client, got)
		}
	}
}

// Repeated requests get the limits of the client's plan as soon as it is registered.
func TestARepeatedRequestIsOfThePlanAtOnce(t *testing.T) {
	b := newBench(t, byPlan(), rules.Rule{ID: "unknown", When: rules.Condition{Not: []rules.Condition{is(plan, "*")}}, Limits: limits("1000/h")})
	var v engine.Verdict
	decide := func() {
		t.Helper()
		if err := b.Decide(context.Background(), alice(), &v); err != nil {
			t.Fatal(err)
		}
	}
	outcomes := func() (list []string) {
		for _, o := range v.Outcomes() {
			list = append(list, o.Rule.ID)
		}
		return list
	}
	decide()
	decide()
	if got, want := outcomes(), []string{"a", "unknown"}; !slices.Equal(got, want) || v.Action != engine.Allow {
		t.Errorf("an unknown client: got %v of %v, want %v allowed", said(&v), got, want)
	}
	if err := b.AddClient(on("alice", "gold")); err != nil {
		t.Fatal(err)
	}
	decide()
	if got, want := outcomes(), []string{"a"}; !slices.Equal(got, want) || v.Decision.Limit != 5 || v.Decision.Remaining != 2 {
		t.Errorf("on the plan gold: got %+v of %v, want 2 of 5 left under %v", v.Decision, got, want)
	}
	if err := b.RemoveClient(context.Background(), "alice"); err != nil {
		t.Fatal(err)
	}
	decide()
	if got, want := outcomes(), []string{"a", "unknown"}; !slices.Equal(got, want) || v.Action != engine.Allow {
		t.Errorf("an unknown client again: got %v of %v, want %v allowed", said(&v), got, want)
	}
}

func TestExplainTellsThePropertiesThatRulesAskFor(t *testing.T) {
	b := newBench(t, byPlan(), rules.Rule{ID: "gold", When: is(plan, "gold"), Key: by(ip), Limits: limits("9/h")})
	acme := on("alice", "gold")
	acme.Properties = append(acme.Properties, rules.Property{Name: "seats", Value: "12"}) // which no rule asks for
	if err := b.AddClient(acme); err != nil {
		t.Fatal(err)
	}
	x := explain(t, b.Engine, alice())
	want := []rules.Property{{Name: "plan", Value: "gold"}}
	if len(x.Rules) != 2 || !slices.Equal(x.Properties, want) || !slices.Equal(x.Rules[0].Properties, want) || x.Rules[0].Override != 0 {
		t.Errorf("got %+v, want %v", x, want)
	}
	if got := x.Rules[1]; got.Rule.ID != "gold" || got.Properties != nil || got.Client != "" {
		t.Errorf("got %+v, want nobody who is counted by address", got)
	}
}
