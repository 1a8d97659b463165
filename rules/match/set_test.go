package match_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// A set does not change when the rules that it was compiled from do.
func TestSetCopiesItsRules(t *testing.T) {
	list := []rules.Rule{{
		ID: "a", When: is(user, "u"), Key: []headgate.Attribute{user}, Limits: limits("1/s"), OnFailure: headgate.Local, Safe: &headgate.Limit{Count: 1, Period: 1e9},
		Overrides: []rules.Override{{When: is(ip, "10.0.0.0/8"), Limits: limits("5/s")}},
		Penalty:   &rules.Penalty{After: rules.Denials{Count: 1, Within: 1e9}, Limits: limits("1/h"), For: 1e9},
	}}
	clients := []rules.Client{{ID: "u", Attributes: named(user, "u")}}
	set := compile(t, list, clients...)
	r := &list[0]
	r.When.Tests[0].Values[0], r.Key[0], r.Limits[0].Count, r.Safe.Count = "changed", ip, 99, 99
	r.Overrides[0].When.Tests[0].Values[0], r.Overrides[0].Limits[0].Count = "0.0.0.0/0", 99
	r.Penalty.Limits[0].Count = 99
	clients[0].Attributes[0].Values[0] = "changed"
	request := rules.Attributes{user: "u", ip: "192.0.2.1"}
	m := set.Match(request, nil)
	if len(m) != 1 || m[0].Limits[0].Count != 1 || m[0].Rule.Safe.Count != 1 || m[0].Rule.Penalty.Limits[0].Count != 1 || m[0].Client == "" ||
		m[0].Rule.Overrides[0].Limits[0].Count != 5 || string(m[0].AppendKey(nil, request, 0)) != "/a/user/\x01u1" {
		t.Errorf("got %+v", m)
	}
}

func TestAttributesOfRules(t *testing.T) {
	set := compile(t, []rules.Rule{{
		ID: "a", When: is(header("x-plan"), "gold"), Key: []headgate.Attribute{user}, Limits: limits("10/s"),
		Cost:      rules.Cost{Header: "X-Cost", Max: 5},
		Overrides: []rules.Override{{When: is(headgate.Attribute{Kind: headgate.AttrRegion}, "eu"), Unlimited: true}},
	}})
	got := set.Attributes()
	for _, want := range []headgate.Attribute{header("x-plan"), user, header("x-cost"), {Kind: headgate.AttrRegion}} {
		if !slices.Contains(got, want) {
			t.Errorf("got %v, want %v in it", got, want)
		}
	}
}
