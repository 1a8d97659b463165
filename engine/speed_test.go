//go:build !race

package engine_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// A decision about three limits takes all or none, which three bare takes of the same keys do not: it may cost twice as
// much, not more. The aim is half as much again.
func TestDecisionCostsLittleMoreThanItsTakes(t *testing.T) {
	const most = 2
	for name, list := range threeLimits {
		t.Run(name, func(t *testing.T) {
			set := compile(t, list)
			store := newStore(t, memstore.Options{})
			e := newEngine(t, engine.Config{Store: store, Rules: set})
			checks := checksOf(set)
			ctx := context.Background()
			var v engine.Verdict
			takes := func() {
				for i := range checks {
					if _, err := store.Take(ctx, checks[i]); err != nil {
						t.Fatal(err)
					}
				}
			}
			decides := func() {
				if err := e.Decide(ctx, aRequest, &v); err != nil {
					t.Fatal(err)
				}
			}
			// The fastest of many short turns, by turns, is what either takes when nobody disturbs it.
			fastest := [2]time.Duration{time.Hour, time.Hour}
			ratio := func() float64 { return float64(fastest[1]) / float64(fastest[0]) }
			deadline := time.Now().Add(20 * time.Second)
			for round := 0; round < 500 || ratio() > most && time.Now().Before(deadline); round++ {
				for i, do := range []func(){takes, decides} {
					start := time.Now()
					for range 100 {
						do()
					}
					fastest[i] = min(fastest[i], time.Since(start))
				}
			}
			t.Logf("three takes %v, a decision %v: %.2f times", fastest[0]/100, fastest[1]/100, ratio())
			if ratio() > most {
				t.Errorf("%.2f times three takes, want at most %v", ratio(), most)
			}
		})
	}
}

// Ten thousand rules are found the way among them that a hundred are: a third are by a glob of the path, a third by
// host and path, a third by a header alone. The aim is 1 µs against 300 ns, which is a matter for quiet machines; who
// looks at every rule takes a hundred times as long.
func TestMatchOfManyRulesCostsLittleMoreThanOfFew(t *testing.T) {
	const few, many, most = 100, 10_000, 10
	setOf := func(n int) *match.Set {
		list := make([]rules.Rule, n)
		for i := range list {
			when := is(tenant, fmt.Sprint("tenant-", i))
			switch i % 3 {
			case 0:
				when = is(path, fmt.Sprintf("/api/*/service-%d/**", i))
			case 1:
				when = is(path, fmt.Sprintf("/shop/items-%d/*", i))
				when.Tests = append(when.Tests, rules.Test{Attribute: host, Values: []string{fmt.Sprintf("host-%d.example.com", i%100)}})
			}
			list[i] = rules.Rule{ID: fmt.Sprint("rule-", i), When: when, Key: by(user), Limits: limits("10/s")}
		}
		return compile(t, list)
	}
	subjects := []rules.Subject{
		rules.Attributes{user: "alice", host: "host-1.example.com", path: "/api/v1/service-3/users/42", tenant: "nobody"},
		rules.Attributes{user: "alice", host: "host-4.example.com", path: "/shop/items-4/7", tenant: "nobody"},
		rules.Attributes{user: "alice", host: "host-9.example.com", path: "/nothing/here", tenant: "tenant-5"},
	}
	sets := [2]*match.Set{setOf(few), setOf(many)}
	var matched []match.Result
	for _, set := range sets {
		for i, s := range subjects {
			if matched = set.Match(s, matched[:0]); len(matched) != 1 {
				t.Fatalf("request %d matches %d of %d rules, want 1", i, len(matched), set.Len())
			}
		}
	}
	fastest := [2]time.Duration{time.Hour, time.Hour}
	ratio := func() float64 { return float64(fastest[1]) / float64(fastest[0]) }
	deadline := time.Now().Add(20 * time.Second)
	for round := 0; round < 200 || ratio() > most && time.Now().Before(deadline); round++ {
		for i, set := range sets {
			start := time.Now()
			for range 100 {
				for _, s := range subjects {
					matched = set.Match(s, matched[:0])
				}
			}
			fastest[i] = min(fastest[i], time.Since(start))
		}
	}
	calls := time.Duration(100 * len(subjects))
	t.Logf("%d rules %v, %d rules %v: %.2f times", few, fastest[0]/calls, many, fastest[1]/calls, ratio())
	if ratio() > most {
		t.Errorf("%.2f times what %d rules take, want at most %d", ratio(), few, most)
	}
}
