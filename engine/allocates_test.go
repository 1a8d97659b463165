//go:build !race

package engine_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// On a store in memory a decision allocates nothing, whatever it comes to, and neither does its end.
func TestDecisionAllocatesNothing(t *testing.T) {
	for name, list := range map[string][]rules.Rule{
		"one rule":    threeLimits["one rule"],
		"three rules": threeLimits["three rules"],
		"no rule":     nil,
		"blocked":     {{ID: "a", Block: true}},
		"denied":      {{ID: "a", Key: by(user), Limits: limits("1/d", "1/d fixed-window")}, {ID: "b", Limits: limits("5/d")}},
		"every algorithm": {{ID: "a", Key: by(user), Limits: limits("50000/s", "50000/s gcra", "50000/s leaky-bucket",
			"50000/s fixed-window", "50000/s sliding-window", "50000/s sliding-buckets", "20 concurrent")}},
		"shadow":       {{ID: "a", Key: by(user), Limits: limits("1/d"), OnLimit: inShadow}, {ID: "b", Limits: limits("90000/s")}},
		"settled":      {tokens("90000/s"), {ID: "places", Limits: limits("9 concurrent")}},
		"delay":        {{ID: "a", Key: by(user), Limits: limits("90000/s"), OnLimit: delayed(time.Second)}},
		"has penalty":  {{ID: "a", Key: by(user), Limits: limits("90000/s"), Penalty: aPenalty}},
		"is penalized": {{ID: "a", Key: by(user), Limits: limits("2/d"), Penalty: strict()}},
		"by address":   {{ID: "a", Key: by(tenant, user), Limits: limits("90000/s")}},
		"client":       {{ID: "a", Key: by(ip), Limits: limits("90000/s"), Unregistered: rules.UnregisteredDeny}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := limittest.NewClock()
			store := newStore(t, memstore.Options{Now: clock.Now})
			observed := 0
			e := newEngine(t, engine.Config{Store: store, Rules: compile(t, list), Observe: func(v *engine.Verdict) {
				observed += len(v.Outcomes()) + len(v.Limits())
			}})
			if err := e.AddClient(rules.Client{ID: "c", Attributes: []rules.Test{{Attribute: ip, Values: []string{aRequest.ip}}}}); err != nil {
				t.Fatal(err)
			}
			ctx := context.Background()
			var v engine.Verdict
			response := func(string) string { return "7" }
			once := func() {
				if err := e.Decide(ctx, aRequest, &v); err != nil {
					t.Fatal(err)
				}
				if err := v.Settle(ctx, response); err != nil {
					t.Fatal(err)
				}
				clock.Advance(time.Millisecond)
			}
			for range 20 {
				once()
			}
			if got := testing.AllocsPerRun(200, once); got != 0 {
				t.Errorf("%v allocations, want none; it came to %s", got, said(&v))
			}
		})
	}
}

// Neither do options, and a lease goes into room that is there.
func TestOptionsAllocateNothing(t *testing.T) {
	e := newEngine(t, engine.Config{Store: newStore(t, memstore.Options{}), Rules: compile(t, []rules.Rule{
		{ID: "a", Key: by(user), Limits: limits("90000/s", "100 concurrent ttl 1ms")},
		{ID: "b", Limits: limits("90000/s sliding-window")},
	})})
	ctx := context.Background()
	var v engine.Verdict
	room := make([]byte, 0, 1024)
	for name, options := range map[string]engine.DecideOptions{
		"all rules": {}, "one rule": {Rule: "a"}, "a cost": {Cost: 3, HasCost: true}, "a peek": {HasCost: true}, "unheld": {NoWait: true},
	} {
		once := func() {
			if err := e.DecideWith(ctx, aRequest, options, &v); err != nil || v.Rule == nil {
				t.Fatalf("%s: got %s, %v", name, said(&v), err)
			}
			room = v.AppendLease(room[:0])
			if err := v.Settle(ctx, nil); err != nil {
				t.Fatal(err)
			}
		}
		once()
		if got := testing.AllocsPerRun(200, once); got != 0 {
			t.Errorf("%s: %v allocations, want none", name, got)
		}
	}
}

// What a request says of itself is read without allocating, too.
func TestIdentifiedDecisionAllocatesNothing(t *testing.T) {
	id, err := identity.New(identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, engine.Config{Store: newStore(t, memstore.Options{}), Rules: compile(t, []rules.Rule{
		{ID: "a", Key: by(headgate.Attribute{Kind: headgate.AttrAPIKey}), Limits: limits("90000/s")},
	})})
	r := httptest.NewRequest(http.MethodGet, "/search", nil)
	r.Header.Set("X-API-Key", "k1")
	var who identity.Attributes
	var v engine.Verdict
	ctx := context.Background()
	once := func() {
		id.Read(r, &who)
		if err := e.Decide(ctx, &who, &v); err != nil || v.Rule == nil {
			t.Fatalf("got %s, %v", said(&v), err)
		}
	}
	once()
	if got := testing.AllocsPerRun(200, once); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

// A store that may keep its keys costs one allocation for all of them.
func TestKeysForOtherStoresAreOneAllocation(t *testing.T) {
	store := keeper{newStore(t, memstore.Options{})}
	e := newEngine(t, engine.Config{Store: store, Rules: compile(t, threeLimits["three rules"])})
	ctx := context.Background()
	var v engine.Verdict
	once := func() {
		if err := e.Decide(ctx, aRequest, &v); err != nil {
			t.Fatal(err)
		}
	}
	once()
	if got := testing.AllocsPerRun(200, once); got != 1 {
		t.Errorf("%v allocations, want 1", got)
	}
}

// keeper is a limiter that does not promise to forget keys.
type keeper struct{ headgate.Limiter }
