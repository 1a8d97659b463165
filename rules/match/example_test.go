package match_test

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
)

// Rules can be written in Go. A Set finds those that apply to a request, and the keys to count it under.
func ExampleCompile() {
	var (
		path = headgate.Attribute{Kind: headgate.AttrPath}
		user = headgate.Attribute{Kind: headgate.AttrUser}
	)
	set, err := match.Compile([]rules.Rule{
		{
			ID:     "search-per-user",
			When:   rules.Condition{Tests: []rules.Test{{Attribute: path, Values: []string{"/search/**"}}}},
			Key:    []headgate.Attribute{user},
			Limits: []rules.Limit{{Limit: headgate.PerSecond(10)}, {Limit: headgate.PerHour(1000)}},
		},
		{
			ID:     "everybody",
			Limits: []rules.Limit{{Limit: headgate.PerSecond(5000)}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	request := rules.Attributes{path: "/search/cats", user: "alice"}
	for _, m := range set.Match(request, nil) {
		fmt.Println(m.Rule.ID, m.Effect, "shared:", m.Shared)
		for i, limit := range m.Limits {
			fmt.Printf("  %v under %q\n", limit.Limit, m.AppendKey(nil, request, i))
		}
	}
	// Output:
	// search-per-user limited shared: false
	//   10/s under "/search-per-user/user/\x05alice1"
	//   1000/h under "/search-per-user/user/\x05alice2"
	// everybody limited shared: true
	//   5000/s under "/everybody//1"
}

// All problems are reported at once.
func ExampleCompile_invalid() {
	_, err := match.Compile([]rules.Rule{
		{
			ID:     "search per user",
			Cost:   rules.Cost{Units: 20},
			Limits: []rules.Limit{{Limit: headgate.PerSecond(10)}},
		},
		{
			ID:          "exports",
			Consistency: rules.Async,
			Limits:      []rules.Limit{{Limit: headgate.InFlight(5)}},
		},
	})
	fmt.Println(err)
	// Output:
	// rules[0].id: "search per user": want letters, digits, '-', '_' and '.', beginning with a letter or a digit, at most 128 bytes
	// rules[0].limits[0]: "10/s": want room for 20 at once, the cost of a request; otherwise every request would be denied
	// rules[1].limits[0]: "5 concurrent": want consistency exact or local for concurrency, not async: a node cannot know whether a slot is free without a call to a store
}

// Clients in a registry can change while rules stay, and the other way round.
func ExampleSet_WithRegistry() {
	user := headgate.Attribute{Kind: headgate.AttrUser}
	set, err := match.Compile([]rules.Rule{{
		ID:     "per-user",
		Key:    []headgate.Attribute{user},
		Limits: []rules.Limit{{Limit: headgate.PerSecond(10)}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	clients, err := registry.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	set = set.WithRegistry(clients)
	show := func() { fmt.Println(set.Match(rules.Attributes{user: "acme"}, nil)[0].Limits[0].Limit) }

	show()
	if err := clients.Add(rules.Client{ID: "acme", Limits: []rules.Limit{{Limit: headgate.PerSecond(500)}}}); err != nil {
		fmt.Println(err)
	}
	show()
	clients.Remove("acme")
	show()
	// Output:
	// 10/s
	// 500/s
	// 10/s
}

// All clients with a plan have its limits; a client that changes its plan changes its limits.
func ExampleSet_WithRegistry_properties() {
	user := headgate.Attribute{Kind: headgate.AttrUser}
	plan := headgate.Attribute{Kind: headgate.AttrClient, Name: "plan"}
	set, err := match.Compile([]rules.Rule{{
		ID:     "per-user",
		Key:    []headgate.Attribute{user},
		Limits: []rules.Limit{{Limit: headgate.PerSecond(10)}},
		Overrides: []rules.Override{{
			When:   rules.Condition{Tests: []rules.Test{{Attribute: plan, Values: []string{"gold"}}}},
			Limits: []rules.Limit{{Limit: headgate.PerSecond(500)}},
		}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	clients, err := registry.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	set = set.WithRegistry(clients)
	for _, on := range []string{"silver", "gold"} {
		if err := clients.Put(rules.Client{ID: "acme", Properties: []rules.Property{{Name: "plan", Value: on}}}); err != nil {
			fmt.Println(err)
		}
		fmt.Println(on, set.Match(rules.Attributes{user: "acme"}, nil)[0].Limits[0].Limit)
	}
	// Output:
	// silver 10/s
	// gold 500/s
}
