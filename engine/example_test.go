package engine_test

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// anEngine returns an engine with one rule, on a store whose clock stands still so that the output is always the same.
func anEngine(r rules.Rule) (e *engine.Engine, end func()) {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	store, err := memstore.New(memstore.Options{Now: func() time.Time { return now }})
	if err != nil {
		panic(err)
	}
	set, err := match.Compile([]rules.Rule{r})
	if err != nil {
		panic(err)
	}
	e, err = engine.New(engine.Config{Store: store, Rules: set})
	if err != nil {
		panic(err)
	}
	return e, func() { store.Close() }
}

func Example() {
	e, end := anEngine(rules.Rule{
		ID:     "search-per-user",
		When:   rules.Condition{Tests: []rules.Test{{Attribute: headgate.Attribute{Kind: headgate.AttrPath}, Values: []string{"/search/**"}}}},
		Key:    []headgate.Attribute{{Kind: headgate.AttrUser}},
		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("10/s burst 2")}},
	})
	defer end()
	ctx := context.Background()
	var v engine.Verdict
	for _, user := range []string{"alice", "alice", "alice", "bob"} {
		request := rules.Attributes{
			{Kind: headgate.AttrUser}: user,
			{Kind: headgate.AttrPath}: "/search/cats",
		}
		if err := e.Decide(ctx, request, &v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(user, v.Action, v.Decision.Remaining, "left, retry after", v.RetryAfter, "status", v.Status)
	}
	// Output:
	// alice allow 1 left, retry after 0s status 0
	// alice allow 0 left, retry after 0s status 0
	// alice reject 0 left, retry after 100ms status 429
	// bob allow 1 left, retry after 0s status 0
}

// A cost that is known only afterwards: an estimate is taken, then the difference.
func ExampleVerdict_Settle() {
	e, end := anEngine(rules.Rule{
		ID:     "tokens",
		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("1000/m")}},
		Cost:   rules.Cost{ResponseHeader: "X-Tokens-Used", Estimate: 100},
	})
	defer end()
	ctx := context.Background()
	var v engine.Verdict
	for _, used := range []string{"250", "20", ""} {
		if err := e.Decide(ctx, rules.Attributes{}, &v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Decision.Remaining, "left with an estimate of 100")
		response := map[string]string{"X-Tokens-Used": used}
		if err := v.Settle(ctx, func(name string) string { return response[name] }); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// 900 left with an estimate of 100
	// 650 left with an estimate of 100
	// 630 left with an estimate of 100
}

// A rule that delays holds requests until their turn.
func ExampleVerdict_Wait() {
	e, end := anEngine(rules.Rule{
		ID:      "exports",
		Limits:  []rules.Limit{{Limit: headgate.MustParseLimit("100/s burst 1")}},
		OnLimit: rules.OnLimit{Action: rules.Delay, MaxWait: 20 * time.Millisecond},
	})
	defer end()
	ctx := context.Background()
	for range 4 {
		var v engine.Verdict
		if err := e.Decide(ctx, rules.Attributes{}, &v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Action, v.Delay, v.RetryAfter)
		if err := v.Wait(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// allow 0s 0s
	// delay 10ms 0s
	// delay 20ms 0s
	// reject 0s 10ms
}

// A client that is registered has limits of its own.
func ExampleEngine_AddClient() {
	e, end := anEngine(rules.Rule{
		ID:     "per-user",
		Key:    []headgate.Attribute{{Kind: headgate.AttrUser}},
		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("10/s")}},
	})
	defer end()
	acme := rules.Client{ID: "acme", Limits: []rules.Limit{{Limit: headgate.MustParseLimit("500/s")}}}
	fmt.Println(e.AddClient(acme))
	fmt.Println(e.AddClient(acme))
	var v engine.Verdict
	for _, user := range []string{"acme", "alice"} {
		if err := e.Decide(context.Background(), rules.Attributes{{Kind: headgate.AttrUser}: user}, &v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(user, v.Decision.Limit)
	}
	// Output:
	// <nil>
	// client.id: "acme": want a client that is not registered yet
	// acme 500
	// alice 10
}

// Explain tells which rules match and what each would say, and takes nothing.
func ExampleEngine_Explain() {
	e, end := anEngine(rules.Rule{
		ID:     "per-tenant",
		Key:    []headgate.Attribute{{Kind: headgate.AttrHeader, Name: "x-tenant"}, {Kind: headgate.AttrPath}},
		Limits: []rules.Limit{{Limit: headgate.MustParseLimit("10/s")}, {Name: "hourly", Limit: headgate.MustParseLimit("100/h sliding-window")}},
	})
	defer end()
	x, err := e.Explain(context.Background(), rules.Attributes{
		{Kind: headgate.AttrHeader, Name: "x-tenant"}: "acme",
		{Kind: headgate.AttrPath}:                     "/reports",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range x.Rules {
		fmt.Println(r.Rule.ID, r.Effect, "shared:", r.Shared, "cost:", r.Cost)
		for _, part := range r.Key {
			fmt.Printf("  by %s = %s\n", part.Attribute, part.Value)
		}
		for _, l := range r.Limits {
			fmt.Printf("  %s: %d of %s\n", l.Name, l.Decision.Remaining, l.Limit)
		}
	}
	fmt.Println(x.Verdict.Action)
	// Output:
	// per-tenant limited shared: true cost: 1
	//   by header.x-tenant = acme
	//   by path = /reports
	//   1: 10 of 10/s
	//   hourly: 100 of 100/h sliding-window
	// allow
}

// A service that decides for others keeps no verdict: it hands out a text for the place that was taken.
func ExampleEngine_Release() {
	e, end := anEngine(rules.Rule{ID: "jobs", Limits: []rules.Limit{{Limit: headgate.InFlight(1)}}})
	defer end()
	ctx := context.Background()
	var v engine.Verdict
	var lease string
	for range 2 {
		if err := e.DecideWith(ctx, rules.Attributes{}, engine.DecideOptions{Rule: "jobs", NoWait: true}, &v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(v.Action)
		if v.Action.Passes() {
			lease = string(v.AppendLease(nil))
		}
	}
	if err := e.Release(ctx, lease); err != nil {
		fmt.Println(err)
	}
	if err := e.DecideWith(ctx, rules.Attributes{}, engine.DecideOptions{Rule: "jobs", NoWait: true}, &v); err == nil {
		fmt.Println("released:", v.Action)
	}
	// Output:
	// allow
	// reject
	// released: allow
}

// A peek says what is left, and takes nothing.
func ExampleEngine_DecideWith() {
	e, end := anEngine(rules.Rule{ID: "search", Limits: []rules.Limit{{Limit: headgate.PerSecond(10)}}})
	defer end()
	ctx := context.Background()
	var v engine.Verdict
	for _, options := range []engine.DecideOptions{{HasCost: true, Cost: 4}, {HasCost: true}, {HasCost: true}, {HasCost: true, Cost: 7}} {
		if err := e.DecideWith(ctx, rules.Attributes{}, options, &v); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(options.Cost, v.Action, v.Decision.Remaining)
	}
	// Output:
	// 4 allow 6
	// 0 allow 6
	// 0 allow 6
	// 7 reject 6
}
