package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// One rule and one client are forgotten, with all limits that may have counted them, penalties included; no other is.
func TestResetForgetsOneClientUnderOneRule(t *testing.T) {
	plan := header("x-plan")
	onEveryStore(t, []rules.Rule{
		{
			ID: "a", When: is(path, "/"), Key: by(user), Limits: limits("2/h", "4/d sliding-log", "3 concurrent"), Penalty: strict(),
			Overrides: []rules.Override{{When: is(plan, "gold"), Limits: limits("50/m sliding-window")}},
		},
		{ID: "b", Key: by(user), Limits: limits("9/h")},
	}, func(t *testing.T, b *bench) {
		gold := rules.Attributes{user: "alice", path: "/", plan: "gold"}
		nameless := rules.Attributes{ip: "192.0.2.9", path: "/"}
		bob := rules.Attributes{user: "bob", path: "/"}
		everybody := map[string]rules.Attributes{"alice": alice(), "gold": gold, "nameless": nameless, "bob": bob}
		before := map[string]map[string]int64{}
		for who, s := range everybody {
			before[who] = remaining(t, b.Engine, s)
		}
		for range 8 {
			for _, s := range everybody {
				b.ask(s)
			}
		}
		penalized := func() bool {
			return slices.ContainsFunc(b.ask(alice()).Outcomes(), func(o engine.Outcome) bool { return o.Penalized })
		}
		if !penalized() {
			t.Fatal("no penalty to forget")
		}
		elsewhere := rules.Attributes{user: "alice", path: "/elsewhere"} // the condition is not asked
		if err := b.Reset(context.Background(), "a", elsewhere); err != nil {
			t.Fatal(err)
		}
		for who, s := range everybody {
			for name, left := range remaining(t, b.Engine, s) {
				was, ok := before[who][name]
				if !ok {
					continue // the limit of a penalty
				}
				forgets := name[0] == 'a' && (who == "alice" || who == "gold")
				if forgotten := left == was; forgotten != forgets {
					t.Errorf("%s, %s: %d left of %d, forgotten %v, want %v", who, name, left, was, forgotten, forgets)
				}
			}
		}
		if err := b.Reset(context.Background(), "a", nameless); err != nil {
			t.Fatal(err)
		}
		if left := remaining(t, b.Engine, nameless); left["a:1"] != 2 {
			t.Errorf("by the address: got %v, want 2", left)
		}
	})
}

// What was counted in this process while the store was away is forgotten as well.
func TestResetForgetsWhatWasCountedInPlaceOfTheStore(t *testing.T) {
	clock := newBench(t)
	local, _, exact, _ := stores(t, clock)
	e := newEngine(t, engine.Config{
		Store: exact, Local: local, Shared: true, OnError: func(error) {},
		Rules: compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/h"), OnFailure: headgate.Local}}),
	})
	exact.breaks(errBroken)
	decide(t, e, alice())
	if v := decide(t, e, alice()); v.Action != engine.Reject {
		t.Fatalf("got %s", said(v))
	}
	if err := e.Reset(context.Background(), "a", alice()); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "rule a") {
		t.Errorf("got %v, want the store's error", err)
	}
	if v := decide(t, e, alice()); v.Action != engine.Allow {
		t.Errorf("got %s", said(v))
	}
}

func TestResetOfWhatIsNotCounted(t *testing.T) {
	ctx := context.Background()
	b := newBench(t,
		rules.Rule{ID: "blocks", When: is(path, "/x"), Block: true},
		rules.Rule{ID: "exempts", When: is(path, "/y"), Unlimited: true},
		rules.Rule{ID: "skips", Key: by(user), Limits: limits("1/h"), Fallback: rules.FallbackSkip})
	for _, id := range []string{"blocks", "exempts", "skips"} {
		if err := b.Reset(ctx, id, rules.Attributes{}); err != nil {
			t.Errorf("%s: got %v", id, err)
		}
	}
	for _, id := range []string{"", "none"} {
		if err := b.Reset(ctx, id, alice()); !errors.Is(err, engine.ErrNoRule) {
			t.Errorf("%q: got %v", id, err)
		}
	}
	if err := b.Reset(nil, "skips", alice()); !errors.Is(err, headgate.ErrNilContext) { //nolint:staticcheck // that is what is tested
		t.Errorf("got %v", err)
	}
}
