package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

func TestClientsComeAndGo(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("2/h"), Unregistered: rules.UnregisteredDeny})
	if v := b.ask(alice()); said(v) != "reject (unregistered) by a" {
		t.Fatalf("got %s", said(v))
	}
	client := rules.Client{ID: "alice", Limits: limits("3/h")}
	if err := b.AddClient(client); err != nil {
		t.Fatal(err)
	}
	if err := b.AddClient(client); !errors.Is(err, rules.ErrInvalid) || !strings.Contains(err.Error(), "not registered yet") {
		t.Errorf("adding one twice: got %v", err)
	}
	if got := b.passes(alice()); got != 3 {
		t.Errorf("%d passed, want 3", got)
	}
	// It stays when rules change.
	if err := b.SetRules(compile(t, []rules.Rule{
		{ID: "a", Key: by(user), Limits: limits("1/h"), Unregistered: rules.UnregisteredDeny},
	})); err != nil {
		t.Fatal(err)
	}
	if v := b.ask(alice()); said(v) != "reject (over limit) by a" || b.Clients() != 1 {
		t.Errorf("got %s, %d clients", said(v), b.Clients())
	}
	// With the client its counters go.
	if err := b.RemoveClient(context.Background(), "alice"); err != nil {
		t.Fatal(err)
	}
	if v := b.ask(alice()); said(v) != "reject (unregistered) by a" {
		t.Errorf("got %s", said(v))
	}
	if err := b.AddClient(client); err != nil {
		t.Fatal(err)
	}
	if got := b.passes(alice()); got != 3 {
		t.Errorf("%d passed after it was removed and added again, want 3", got)
	}
	if err := b.RemoveClient(context.Background(), "nobody"); !errors.Is(err, engine.ErrNoClient) {
		t.Errorf("got %v, want %v", err, engine.ErrNoClient)
	}
}

// One verdict is used for one client after the other. Each has its own limit, not the one that stood there before.
func TestEachClientHasItsOwnLimitInAVerdictThatIsUsedAgain(t *testing.T) {
	e := newEngine(t, engine.Config{Store: newStore(t, memstore.Options{}), Rules: compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("2/h")}})})
	for id, limit := range map[string]string{"three": "3/h", "four": "4/h", "five": "5/h burst 6"} {
		if err := e.AddClient(rules.Client{ID: id, Limits: limits(limit)}); err != nil {
			t.Fatal(err)
		}
	}
	var v engine.Verdict
	for round := range 3 {
		for _, asks := range []struct {
			id   string
			want int64
		}{{"three", 3}, {"four", 4}, {"nobody", 2}, {"five", 6}, {"three", 3}} {
			for how, decide := range map[string]func() error{
				"Decide": func() error { return e.Decide(context.Background(), &request{user: asks.id}, &v) },
				"DecideWith": func() error {
					return e.DecideWith(context.Background(), &request{user: asks.id}, engine.DecideOptions{Rule: "a"}, &v)
				},
			} {
				if err := decide(); err != nil || v.Decision.Limit != asks.want {
					t.Errorf("round %d, %s for %s: got a limit of %d, %v; want %d", round, how, asks.id, v.Decision.Limit, err, asks.want)
				}
			}
		}
	}
}

func TestClientIsHeldAgainstTheRules(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("10/h"), Cost: rules.Cost{Units: 5}})
	err := b.AddClient(rules.Client{ID: "alice", Limits: limits("4/h")})
	if !errors.Is(err, rules.ErrInvalid) || b.Clients() != 0 {
		t.Errorf("got %v, %d clients", err, b.Clients())
	}
}

// All that a client may have consumed under one attribute is forgotten: by its own limits, by the rule's, by overrides,
// by the address in place of the user, in penalties, in every store.
func TestRemovingAClientForgetsItsCounters(t *testing.T) {
	plan := header("x-plan")
	list := []rules.Rule{
		{ID: "a", Key: by(user), Limits: limits("2/h", "4/d"), Penalty: strict()},
		{ID: "b", Key: by(user), Limits: limits("9/h"), Consistency: rules.Local, Overrides: []rules.Override{
			{When: is(plan, "gold"), Limits: limits("50/m sliding-window", "20/h")},
		}},
		{ID: "c", Key: by(user, path), Limits: limits("5/h")},
		{ID: "d", Key: by(tenant), Limits: limits("5/h")},
		{ID: "e", Limits: limits("99/h")},
	}
	b := newBench(t)
	local, _, exact, _ := stores(t, b)
	e := newEngine(t, engine.Config{Store: exact, Local: local, Shared: true, Rules: compile(t, list)})
	alice := rules.Attributes{user: "alice", ip: "192.0.2.1", path: "/", tenant: "acme"}
	gold := rules.Attributes{user: "alice", ip: "192.0.2.1", path: "/", tenant: "acme", plan: "gold"}
	nameless := rules.Attributes{ip: "192.0.2.1", path: "/", tenant: "acme"}
	before := map[string]map[string]int64{
		"alice": remaining(t, e, alice), "gold": remaining(t, e, gold), "nameless": remaining(t, e, nameless),
	}
	for range 8 {
		decide(t, e, alice)
		decide(t, e, gold)
		decide(t, e, nameless)
	}
	client := rules.Client{ID: "acme", Attributes: []rules.Test{
		{Attribute: user, Values: []string{"other", "alice"}}, {Attribute: ip, Values: []string{"192.0.2.1"}},
	}}
	if err := e.AddClient(client); err != nil {
		t.Fatal(err)
	}
	if v := decide(t, e, alice); !slices.ContainsFunc(v.Outcomes(), func(o engine.Outcome) bool { return o.Penalized }) {
		t.Fatal("no penalty to forget")
	}
	if err := e.RemoveClient(context.Background(), "acme"); err != nil {
		t.Fatal(err)
	}
	for who, request := range map[string]rules.Attributes{"alice": alice, "gold": gold, "nameless": nameless} {
		for name, left := range remaining(t, e, request) {
			forgets := name[0] == 'a' || name[0] == 'b' || who == "nameless" && name[0] == 'c'
			if forgotten := left == before[who][name]; forgotten != forgets {
				t.Errorf("%s, %s: %d left of %d, forgotten %v, want %v", who, name, left, before[who][name], forgotten, forgets)
			}
		}
	}
}

func TestRemovingAClientSaysWhatCouldNotBeForgotten(t *testing.T) {
	b := newBench(t)
	_, _, exact, _ := stores(t, b)
	e := newEngine(t, engine.Config{Store: exact, Rules: compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("2/h")}})})
	if err := e.AddClient(rules.Client{ID: "alice"}); err != nil {
		t.Fatal(err)
	}
	exact.breaks(errBroken)
	if err := e.RemoveClient(context.Background(), "alice"); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "rule a") {
		t.Errorf("got %v", err)
	}
	if e.Clients() != 0 {
		t.Error("the client is still there")
	}
	if err := e.RemoveClient(nil, "alice"); !errors.Is(err, headgate.ErrNilContext) { //nolint:staticcheck // that is what is tested
		t.Errorf("got %v", err)
	}
}
