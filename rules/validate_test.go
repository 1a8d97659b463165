package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// What files cannot say, Go programs can. What files can is in file/testdata.
func TestRulesThatOnlyAProgramCanGetWrong(t *testing.T) {
	ok := func() rules.Rule { return rules.Rule{ID: "a", Limits: limits("1/s")} }
	for path, change := range map[string]func(*rules.Rule){
		"rules[0].owner":        func(r *rules.Rule) { r.Owner = 9 },
		"rules[0].fallback":     func(r *rules.Rule) { r.Fallback, r.Key = 9, []headgate.Attribute{user} },
		"rules[0].consistency":  func(r *rules.Rule) { r.Consistency = 9 },
		"rules[0].unregistered": func(r *rules.Rule) { r.Unregistered = 9 },
		"rules[0].on_limit":     func(r *rules.Rule) { r.OnLimit.Action = 9 },
		"rules[0].on_failure":   func(r *rules.Rule) { r.OnFailure = 9 },
		"rules[0].safe":         func(r *rules.Rule) { r.OnFailure, r.Safe = headgate.Local, &headgate.Limit{} },
		"rules[0].limits[0]":    func(r *rules.Rule) { r.Limits[0].Limit = headgate.Limit{} },
		"rules[0].key[0]":       func(r *rules.Rule) { r.Key = []headgate.Attribute{{}} },
		"rules[0].key[1]":       func(r *rules.Rule) { r.Key = []headgate.Attribute{user, {Kind: headgate.AttrHeader, Name: "X-Plan"}} },
		"rules[0].when.host":    func(r *rules.Rule) { r.When = is(host) },
		"rules[0].when.host[0]": func(r *rules.Rule) { r.When = is(host, "\xff") },
		"rules[0].when.path[1]": func(r *rules.Rule) { r.When = is(path, "/", "/"+strings.Repeat("a", rules.MaxText)) },
		"rules[0].description":  func(r *rules.Rule) { r.Description = strings.Repeat("a", rules.MaxText+1) },
		"rules[0].cost":         func(r *rules.Rule) { r.Cost = rules.Cost{Units: 1, Header: "X", Max: 1} },
		"rules[0].cost.max":     func(r *rules.Rule) { r.Cost = rules.Cost{Header: "X", Max: headgate.MaxCount + 1} },
		"rules[0].split":        func(r *rules.Rule) { r.Split = -1 },
		"rules[0].penalty.for": func(r *rules.Rule) {
			r.Key = []headgate.Attribute{user}
			r.Penalty = &rules.Penalty{After: rules.Denials{Count: 1, Within: 1}, Limits: limits("1/h"), For: -1}
		},
	} {
		r := ok()
		change(&r)
		err := rules.Validate([]rules.Rule{r})
		var invalid *rules.Error
		if !errors.As(err, &invalid) || !errors.Is(err, rules.ErrInvalid) {
			t.Errorf("%s: got %v", path, err)
			continue
		}
		if !slices.ContainsFunc(invalid.Problems, func(p rules.Problem) bool { return p.Path == path && p.Want != "" }) {
			t.Errorf("%s: got %v", path, err)
		}
		if set, err := rules.Compile([]rules.Rule{r}); set != nil || err == nil {
			t.Errorf("%s: Compile takes what Validate refuses", path)
		}
	}
	if err := rules.Validate([]rules.Rule{ok()}); err != nil {
		t.Error(err)
	}
}

func TestDelayHasBounds(t *testing.T) {
	for wait, want := range map[time.Duration]bool{0: false, -1: false, time.Microsecond: true, rules.MaxDelay: true, rules.MaxDelay + 1: false} {
		r := rules.Rule{ID: "a", Limits: limits("1/s"), OnLimit: rules.OnLimit{Action: rules.Delay, MaxWait: wait}}
		if err := rules.Validate([]rules.Rule{r}); (err == nil) != want {
			t.Errorf("%v: got %v", wait, err)
		}
	}
}

func TestEverythingThatIsWrongIsReportedUpToABound(t *testing.T) {
	list := make([]rules.Rule, 500)
	err := rules.Validate(list) // each without an id and without limits
	var invalid *rules.Error
	if !errors.As(err, &invalid) || len(invalid.Problems) != rules.MaxProblems || invalid.More != 1000-rules.MaxProblems {
		t.Fatalf("got %d problems and %d more", len(invalid.Problems), invalid.More)
	}
	if text := err.Error(); !strings.HasSuffix(text, "and 900 more") || strings.Count(text, "\n") != rules.MaxProblems {
		t.Errorf("got %s", text)
	}
}

func TestNumbersHaveBounds(t *testing.T) {
	many := rules.Rule{ID: "a", Limits: limits("1/s")}
	for i := range rules.MaxTests + 1 {
		many.When.Tests = append(many.When.Tests, is(header(fmt.Sprint("h", i)), "x").Tests...)
	}
	values := rules.Rule{ID: "a", Limits: limits("1/s"), When: is(user, make([]string, rules.MaxValues+1)...)}
	overrides := rules.Rule{ID: "a", Limits: limits("1/s"), Overrides: make([]rules.Override, rules.MaxOverrides+1)}
	for name, list := range map[string][]rules.Rule{
		"rules": make([]rules.Rule, rules.MaxRules+1), "tests": {many}, "values": {values}, "overrides": {overrides},
	} {
		if err := rules.Validate(list); err == nil || !strings.Contains(err.Error(), "at most") {
			t.Errorf("too many %s: got %v", name, err)
		}
	}
	if err := rules.Validate(nil, make([]rules.Client, rules.MaxClients+1)...); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too many clients: got %v", err)
	}
}

// What was compiled does not change when the rules it was made of do.
func TestASetSharesNothingWithTheRulesItWasMadeOf(t *testing.T) {
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
	if len(m) != 1 || m[0].Limits[0].Count != 1 || m[0].Rule.Safe.Count != 1 || m[0].Rule.Penalty.Limits[0].Count != 1 || m[0].Client == nil ||
		m[0].Rule.Overrides[0].Limits[0].Count != 5 || string(m[0].AppendKey(nil, request, 0)) != "/a/user/\x01u1" {
		t.Errorf("got %+v", m)
	}
}

func TestAttributesThatRulesLookAt(t *testing.T) {
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
