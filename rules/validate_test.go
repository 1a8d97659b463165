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

// These problems can occur only in Go. The problems of files are in file/testdata.
func TestInvalidRulesInGo(t *testing.T) {
	ok := func() rules.Rule { return rules.Rule{ID: "a", Limits: limits("1/s")} }
	for path, change := range map[string]func(*rules.Rule){
		"rules[0].owner":        func(r *rules.Rule) { r.Owner = 9 },
		"rules[0].fallback":     func(r *rules.Rule) { r.Fallback, r.Key = 9, []headgate.Attribute{user} },
		"rules[0].consistency":  func(r *rules.Rule) { r.Consistency = 9 },
		"rules[0].scope":        func(r *rules.Rule) { r.Scope = 9 },
		"rules[0].partition":    func(r *rules.Rule) { r.Consistency, r.Partition = rules.Async, 9 },
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
	}
	if err := rules.Validate([]rules.Rule{ok()}); err != nil {
		t.Error(err)
	}
}

func TestDelayHasBounds(t *testing.T) {
	for wait, want := range map[time.Duration]bool{0: false, -1: false, time.Microsecond: true, rules.MaxDelay: true, rules.MaxDelay + 1: false} {
		r := rules.Rule{ID: "a", Limits: limits("1/us"), OnLimit: rules.OnLimit{Action: rules.Delay, MaxWait: wait}}
		if err := rules.Validate([]rules.Rule{r}); (err == nil) != want {
			t.Errorf("%v: got %v", wait, err)
		}
	}
}

// everywhere returns a rule with a limit in every possible position, and clients with it.
func everywhere(l string) (map[string]rules.Rule, map[string]rules.Client) {
	rule := func() rules.Rule {
		return rules.Rule{ID: "a", Key: []headgate.Attribute{user}, Limits: limits("1000/s")}
	}
	own, override, penalty := rule(), rule(), rule()
	own.Limits = limits(l)
	override.Overrides = []rules.Override{{When: is(user, "u"), Limits: limits(l)}}
	penalty.Penalty = &rules.Penalty{After: rules.Denials{Count: 1, Within: time.Second}, Limits: limits(l), For: time.Second}
	return map[string]rules.Rule{
			"rules[0].limits[0]":              own,
			"rules[0].overrides[0].limits[0]": override,
			"rules[0].penalty.limits[0]":      penalty,
		}, map[string]rules.Client{
			"clients[0].limits[0]":          {ID: "c", Limits: limits(l)},
			"clients[0].rules[0].limits[0]": {ID: "c", Rules: []rules.ClientRule{{ID: "a", Limits: limits(l)}}},
		}
}

// The requirements of a rule apply to all limits that are used under it.
func TestIncompatibleLimitsAreRefusedEverywhere(t *testing.T) {
	delay := func(r *rules.Rule) { r.OnLimit = rules.OnLimit{Action: rules.Delay, MaxWait: 2 * time.Second} }
	countRejected := func(r *rules.Rule) { r.CountRejected = true }
	settle := func(r *rules.Rule) { r.Cost = rules.Cost{ResponseHeader: "X-Used", Estimate: 2} }
	safe := func(text string) func(*rules.Rule) {
		return func(r *rules.Rule) {
			l := headgate.MustParseLimit(text)
			r.OnFailure, r.Safe = headgate.Local, &l
		}
	}
	global := func(r *rules.Rule) { r.Scope = rules.ScopeGlobal }
	for _, tt := range []struct {
		name   string
		change func(*rules.Rule)
		limit  string
		want   string // of the message, empty if the limit is valid
	}{
		{"delay", delay, "10/s", ""},
		{"delay", delay, "10/s burst 20", ""},
		{"delay", delay, "10/s gcra", ""},
		{"delay", delay, "10/s leaky-bucket", ""},
		{"delay", delay, "10/s fixed-window", "token-bucket, gcra or leaky-bucket"},
		{"delay", delay, "10/s sliding-log", "token-bucket, gcra or leaky-bucket"},
		{"delay", delay, "10/s sliding-window", "token-bucket, gcra or leaky-bucket"},
		{"delay", delay, "10/s sliding-buckets", "token-bucket, gcra or leaky-bucket"},
		{"delay", delay, "10 concurrent", "token-bucket, gcra or leaky-bucket"},
		{"count_rejected", countRejected, "10/s sliding-log", ""},
		{"count_rejected", countRejected, "10 concurrent", "cannot be charged afterwards"},
		{"response_header", settle, "10/s fixed-window", ""},
		{"response_header", settle, "10 concurrent", "cannot be charged afterwards"},
		{"response_header", settle, "1/s", "room for 2"},
		{"lease", func(r *rules.Rule) { r.Consistency = rules.Lease }, "10/s leaky-bucket", "consistency exact or local"},
		{"global", global, "10/s", ""},
		{"global", global, "10/s gcra", ""},
		{"global", global, "10/s fixed-window", ""},
		{"global", global, "10/s sliding-window", ""},
		{"global", global, "10/s sliding-log", "scope: region"},
		{"global", global, "10/s leaky-bucket", "scope: region"},
		{"global", global, "10 concurrent", "scope: region"},
		{"split", func(r *rules.Rule) { r.Split = 4 }, "4/s", ""},
		{"split", func(r *rules.Rule) { r.Split = 4 }, "3/s burst 100", "at least 4 units"},
		{"split", func(r *rules.Rule) { r.Split = 4 }, "100/s burst 3", "at least 4 units"},
		{"split", func(r *rules.Rule) { r.Split = 4 }, "7/300d burst 150", "smaller burst"},
		{"safe", safe("5/s"), "10/s", ""},
		{"safe", safe("5/s"), "10 concurrent", "requests over time"},
	} {
		inRules, inClients := everywhere(tt.limit)
		for path, r := range inRules {
			tt.change(&r)
			refusedAt(t, tt.name+" and "+tt.limit, path, tt.want, rules.Validate([]rules.Rule{r}))
		}
		for path, c := range inClients {
			r := rules.Rule{ID: "a", Key: []headgate.Attribute{user}, Limits: limits("1000/s")}
			tt.change(&r)
			refusedAt(t, tt.name+" and "+tt.limit, path, tt.want, rules.Validate([]rules.Rule{r}, c))
		}
	}
}

// refusedAt reports an error with another path or without the wanted text.
func refusedAt(t *testing.T, name, path, want string, err error) {
	t.Helper()
	var invalid *rules.Error
	switch {
	case want == "" && err != nil:
		t.Errorf("%s, in %s: got %v, want no error", name, path, err)
	case want != "" && (!errors.As(err, &invalid) || !slices.ContainsFunc(invalid.Problems, func(p rules.Problem) bool {
		return p.Path == path && strings.Contains(p.Want, want)
	})):
		t.Errorf("%s, in %s: got %v, want %q", name, path, err, want)
	}
}

// A penalty adds limits, so they need not be lower than others.
func TestPenaltyMayHaveAnyLimits(t *testing.T) {
	rule := rules.Rule{
		ID: "a", Key: []headgate.Attribute{user}, Limits: limits("10/s"),
		Penalty:   &rules.Penalty{After: rules.Denials{Count: 5, Within: time.Minute}, Limits: limits("20/s", "1/h"), For: time.Minute},
		Overrides: []rules.Override{{When: is(user, "trial"), Limits: limits("1/m")}},
	}
	refusedAt(t, "higher limits", "", "", rules.Validate([]rules.Rule{rule}, rules.Client{ID: "acme", Limits: limits("1/m")}))
}

// The capacity that a delay needs must not exceed the largest count.
func TestDelayNeedsCountableCapacity(t *testing.T) {
	r := rules.Rule{ID: "a", Limits: limits("1/us burst 1099511627776"), OnLimit: rules.OnLimit{Action: rules.Delay, MaxWait: time.Minute}}
	refusedAt(t, "the largest burst", "rules[0].limits[0]", "exceeds the largest count", rules.Validate([]rules.Rule{r}))
	r.Limits = limits("1099511627776/us")
	refusedAt(t, "the largest rate", "rules[0].limits[0]", "exceeds the largest count", rules.Validate([]rules.Rule{r}))
	r.Limits = limits("1/us burst 1099000000000")
	refusedAt(t, "a large burst", "", "", rules.Validate([]rules.Rule{r}))
}

func TestAllProblemsAreReportedUpToABound(t *testing.T) {
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

// Global scope and partition: share are supported in some modes only.
func TestScopeAndPartitionNeedSomeModes(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		change     func(*rules.Rule)
	}{
		{"global and exact", "", func(r *rules.Rule) { r.Scope, r.Consistency = rules.ScopeGlobal, rules.Exact }},
		{"global and lease", "", func(r *rules.Rule) { r.Scope, r.Consistency = rules.ScopeGlobal, rules.Lease }},
		{"global and async", "", func(r *rules.Rule) { r.Scope, r.Consistency = rules.ScopeGlobal, rules.Async }},
		{"global and gossip", "rules[0].scope", func(r *rules.Rule) { r.Scope, r.Consistency = rules.ScopeGlobal, rules.Gossip }},
		{"global and local", "rules[0].scope", func(r *rules.Rule) { r.Scope, r.Consistency = rules.ScopeGlobal, rules.Local }},
		{"global and split", "rules[0].scope", func(r *rules.Rule) { r.Scope, r.Split = rules.ScopeGlobal, 2 }},
		{"global and delay", "rules[0].scope", func(r *rules.Rule) {
			r.Scope, r.OnLimit = rules.ScopeGlobal, rules.OnLimit{Action: rules.Delay, MaxWait: time.Second}
		}},
		{"share and async", "", func(r *rules.Rule) { r.Partition, r.Consistency = headgate.PartitionShare, rules.Async }},
		{"share and gossip", "", func(r *rules.Rule) { r.Partition, r.Consistency = headgate.PartitionShare, rules.Gossip }},
		{"share and exact", "rules[0].partition", func(r *rules.Rule) { r.Partition, r.Consistency = headgate.PartitionShare, rules.Exact }},
		{"share and lease", "rules[0].partition", func(r *rules.Rule) { r.Partition, r.Consistency = headgate.PartitionShare, rules.Lease }},
	} {
		r := rules.Rule{ID: "a", Limits: limits("10/s")}
		tt.change(&r)
		err := rules.Validate([]rules.Rule{r})
		var invalid *rules.Error
		switch {
		case tt.path == "":
			if err != nil {
				t.Errorf("%s: got %v, want no error", tt.name, err)
			}
		case !errors.As(err, &invalid) || len(invalid.Problems) != 1 || invalid.Problems[0].Path != tt.path:
			t.Errorf("%s: got %v, want one problem with %s", tt.name, err, tt.path)
		}
	}
}
