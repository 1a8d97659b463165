package engine_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// tokens is a rule whose cost is known only afterwards.
func tokens(texts ...string) rules.Rule {
	return rules.Rule{
		ID: "tokens", Key: by(user), Limits: limits(texts...),
		Cost: rules.Cost{ResponseHeader: "X-Tokens-Used", Estimate: 10},
	}
}

func TestCostThatTheResponseSays(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		left         int64
	}{
		{"what was estimated", "10", 90},
		{"more", "25", 75},
		{"less", "4", 96},
		{"nothing", "0", 100},
		{"no header", "", 90},
		{"no number", "many", 90},
		{"more than there is", "150", -50},
		{"far more than there is", "1000000", -1000},
	} {
		b := newBench(t, tokens("100/h", "100/d"))
		v := b.ask(alice())
		if v.Action != engine.Allow || v.Decision.Remaining != 90 || !v.NeedsSettle() || !v.ReadsResponse() {
			t.Fatalf("got %s, %d left, settles %v", said(v), v.Decision.Remaining, v.NeedsSettle())
		}
		settle(t, v, map[string]string{"X-Tokens-Used": tt.header})
		left := remaining(t, b.Engine, alice())
		if left["tokens:1"] != tt.left || left["tokens:2"] != tt.left {
			t.Errorf("%s: got %v, want %d on every limit", tt.name, left, tt.left)
		}
		// Once is enough.
		settle(t, v, map[string]string{"X-Tokens-Used": "3"})
		cancel(t, v)
		if again := remaining(t, b.Engine, alice()); again["tokens:1"] != tt.left {
			t.Errorf("%s: settled twice: got %v", tt.name, again)
		}
	}
}

// A client can cut a response short before it says its cost: then the request costs the most that one can.
func TestCutResponseCostsTheMost(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		max          int64
		left         map[string]int64
	}{
		{"nothing is said", "", 0, map[string]int64{"tokens:1": 0, "tokens:2": 400}},
		{"no number is said", "many", 0, map[string]int64{"tokens:1": 0, "tokens:2": 400}},
		{"it was said before", "4", 0, map[string]int64{"tokens:1": 96, "tokens:2": 496}},
		{"nothing is said, and there is a max", "", 30, map[string]int64{"tokens:1": 70, "tokens:2": 470}},
		{"a max beyond the limit", "", 150, map[string]int64{"tokens:1": -50, "tokens:2": 350}},
	} {
		r := tokens("100/h", "500/d")
		r.Cost.Max = tt.max
		b := newBench(t, r)
		v := b.ask(alice())
		if err := v.SettleIncomplete(t.Context(), func(string) string { return tt.header }); err != nil {
			t.Fatal(err)
		}
		if left := remaining(t, b.Engine, alice()); !maps.Equal(left, tt.left) {
			t.Errorf("%s: got %v, want %v", tt.name, left, tt.left)
		}
		settle(t, v, map[string]string{"X-Tokens-Used": "3"}) // once is enough
		if left := remaining(t, b.Engine, alice()); !maps.Equal(left, tt.left) {
			t.Errorf("%s: settled twice: got %v", tt.name, left)
		}
	}
}

// Limits of a client's own are what its requests are charged by, and nothing else is charged more because of a cut.
func TestCutResponseUnderLimitsOfAClient(t *testing.T) {
	r := tokens("100/h")
	r.Overrides = []rules.Override{{When: is(user, "alice"), Limits: limits("50/h")}}
	b := newBench(t, r, rules.Rule{ID: "slots", Limits: limits("2 concurrent")}, rules.Rule{ID: "fixed", Limits: limits("10/h")})
	v := b.ask(alice())
	if err := v.SettleIncomplete(t.Context(), func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"tokens:1": 0, "slots:1": 2, "fixed:1": 9}
	if left := remaining(t, b.Engine, alice()); !maps.Equal(left, want) {
		t.Errorf("got %v, want %v", left, want)
	}
}

func TestDebtDeniesUntilItIsRepaid(t *testing.T) {
	b := newBench(t, tokens("100/m"))
	v := b.ask(alice())
	settle(t, v, map[string]string{"X-Tokens-Used": "200"})
	v = b.ask(alice())
	if said(v) != "reject (over limit) by tokens" || v.RetryAfter != 66*time.Second { // 110 units at 100 a minute
		t.Errorf("got %s, retry after %v", said(v), v.RetryAfter)
	}
	settle(t, v, map[string]string{"X-Tokens-Used": "1000"}) // a denial has nothing to settle
	b.Advance(66 * time.Second)
	if v := b.ask(alice()); v.Action != engine.Allow {
		t.Errorf("got %s", said(v))
	}
}

func TestShadowsAreSettledToo(t *testing.T) {
	r := tokens("100/h")
	r.OnLimit = inShadow
	b := newBench(t, r)
	settle(t, b.ask(alice()), map[string]string{"X-Tokens-Used": "60"})
	if left := remaining(t, b.Engine, alice()); left["tokens:1"] != 40 {
		t.Errorf("got %v, want 40", left)
	}
}

func TestOtherRulesAreNotSettled(t *testing.T) {
	b := newBench(t, tokens("100/h"), rules.Rule{ID: "requests", Key: by(user), Limits: limits("10/h")})
	settle(t, b.ask(alice()), map[string]string{"X-Tokens-Used": "60"})
	if left := remaining(t, b.Engine, alice()); left["tokens:1"] != 40 || left["requests:1"] != 9 {
		t.Errorf("got %v, want 40 and 9", left)
	}
}

func TestPlacesAreReleased(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("2 concurrent ttl 1h", "100/h")})
	first, second := b.ask(alice()), b.ask(alice())
	if v := b.ask(alice()); said(v) != "reject (over limit) by a" {
		t.Errorf("a third: got %s", said(v))
	}
	if !first.NeedsSettle() || first.ReadsResponse() {
		t.Errorf("settles %v, reads %v", first.NeedsSettle(), first.ReadsResponse())
	}
	settle(t, first, nil)
	settle(t, first, nil)
	cancel(t, second)
	if left := remaining(t, b.Engine, alice()); left["a:1"] != 2 || left["a:2"] != 99 {
		t.Errorf("got %v, want both places, and one of two requests", left)
	}
}

func TestCancelGivesBackEverything(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "a", Key: by(user), Limits: limits("10/h", "10/h gcra", "10/h leaky-bucket", "10/h fixed-window", "10/h sliding-window", "10/h sliding-log", "10/h sliding-buckets", "10 concurrent")},
		rules.Rule{ID: "all", Limits: limits("50/h"), Cost: rules.Cost{Units: 5}},
	)
	before := remaining(t, b.Engine, alice())
	var list []*engine.Verdict
	for range 10 {
		list = append(list, b.ask(alice()))
	}
	if v := b.ask(alice()); v.Action != engine.Reject {
		t.Fatalf("got %s", said(v))
	}
	for _, v := range list {
		cancel(t, v)
	}
	after := remaining(t, b.Engine, alice())
	for name, want := range before {
		if after[name] != want {
			t.Errorf("%s: %d left, want %d", name, after[name], want)
		}
	}
}

// A client that has hung up does not keep its slots, and units are restored only once.
func TestEndsAlsoAfterTheContext(t *testing.T) {
	b := newBench(t)
	_, _, exact, _ := stores(t, b)
	for _, store := range []headgate.Limiter{b.store, exact} {
		e := newEngine(t, engine.Config{Store: store, Rules: compile(t, []rules.Rule{
			{ID: "a", Key: by(user), Limits: limits("1 concurrent", "60/m")},
		})})
		ctx, end := context.WithCancel(context.Background())
		var v engine.Verdict
		if err := e.Decide(ctx, alice(), &v); err != nil {
			t.Fatal(err)
		}
		end()
		b.Advance(10 * time.Second)
		if err := v.Cancel(ctx); err != nil {
			t.Error(err)
		}
		if left := remaining(t, e, alice()); left["a:1"] != 1 || left["a:2"] != 60 {
			t.Errorf("got %v, want 1 and 60", left)
		}
	}
}

func TestSettlingThatFailsIsAnError(t *testing.T) {
	b := newBench(t)
	_, _, exact, _ := stores(t, b)
	e := newEngine(t, engine.Config{Store: exact, Rules: compile(t, []rules.Rule{
		tokens("100/h"), {ID: "places", Limits: limits("9 concurrent")},
	})})
	response := func(string) string { return "50" }
	v := decide(t, e, alice())
	exact.breaks(errBroken)
	err := v.Settle(context.Background(), response)
	if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "tokens") || !strings.Contains(err.Error(), "places") {
		t.Errorf("got %v, want both rules named", err)
	}
	exact.breaks(nil)
	v = decide(t, e, alice())
	exact.breaks(errBroken)
	if err := v.Cancel(context.Background()); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

// A verdict that is used for another request has nothing left of the one before.
func TestVerdictIsUsedAgain(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "a", When: is(path, "/a"), Key: by(user), Limits: limits("2 concurrent"), Status: 503},
		rules.Rule{ID: "b", When: is(path, "/b"), Block: true},
	)
	var v engine.Verdict
	for _, tt := range []struct{ path, want string }{
		{"/a", "allow by a"}, {"/b", "reject (blocked) by b"}, {"/c", "allow"}, {"/a", "allow by a"}, {"/a", "reject (over limit) by a"}, {"/c", "allow"},
	} {
		if err := b.Decide(context.Background(), rules.Attributes{user: "alice", path: tt.path}, &v); err != nil {
			t.Fatal(err)
		}
		passes := v.Action.Passes()
		if said(&v) != tt.want || passes != (v.Status == 0) || passes != (v.RetryAfter == 0) || v.NeedsSettle() != (tt.want == "allow by a") {
			t.Errorf("%s: got %s, status %d, settles %v, want %s", tt.path, said(&v), v.Status, v.NeedsSettle(), tt.want)
		}
		want := 1
		if tt.path != "/a" {
			want = 0
		}
		if len(v.Limits()) != want {
			t.Errorf("%s: got %d limits, want %d", tt.path, len(v.Limits()), want)
		}
	}
}
