package engine_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// What becomes of the first request, and of the one after the limit.
func TestEffects(t *testing.T) {
	drop := rules.OnLimit{Action: rules.Drop}
	for _, tt := range []struct {
		name    string
		rules   []rules.Rule
		request rules.Attributes
		first   string
		status  int
		taken   bool // whether the limit "1/h" of rule a was touched
	}{
		{"no rule", nil, alice(), "allow", 0, false},
		{"limited", []rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/h")}}, alice(), "allow by a", 0, true},
		{"another condition", []rules.Rule{{ID: "a", When: is(path, "/other"), Limits: limits("1/h")}}, alice(), "allow", 0, false},
		{
			"block",
			[]rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/h")}, {ID: "b", When: is(ip, "192.0.2.0/24"), Block: true}},
			alice(), "reject (blocked) by b", 403, false,
		},
		{
			"block and drop",
			[]rules.Rule{{ID: "b", Block: true, OnLimit: drop}},
			alice(), "drop (blocked) by b", 403, false,
		},
		{
			"an override that blocks",
			[]rules.Rule{{
				ID: "a", Key: by(user), Limits: limits("1/h"),
				Overrides: []rules.Override{{When: is(user, "alice"), Block: true}},
			}},
			alice(), "reject (blocked) by a", 403, false,
		},
		{
			"not registered",
			[]rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/h"), Unregistered: rules.UnregisteredDeny}},
			alice(), "reject (unregistered) by a", 403, false,
		},
		{
			"not identified",
			[]rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/h"), Fallback: rules.FallbackDeny}},
			rules.Attributes{ip: "192.0.2.1"},
			"reject (unidentified) by a", 403, false,
		},
		{
			"skipped",
			[]rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/h"), Fallback: rules.FallbackSkip}},
			rules.Attributes{ip: "192.0.2.1"},
			"allow", 0, false,
		},
		{
			"by the address instead",
			[]rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/h")}},
			rules.Attributes{ip: "192.0.2.1"},
			"allow by a", 0, true,
		},
		{
			"unlimited",
			[]rules.Rule{{ID: "x", When: is(user, "alice"), Unlimited: true}, {ID: "a", Key: by(user), Limits: limits("1/h")}},
			alice(), "allow", 0, false,
		},
		{
			"an override that is unlimited",
			[]rules.Rule{{
				ID: "a", Key: by(user), Limits: limits("1/h"),
				Overrides: []rules.Override{{When: is(user, "alice"), Unlimited: true}},
			}},
			alice(), "allow", 0, false,
		},
		{
			"what blocks comes before what limits",
			[]rules.Rule{
				{ID: "a", Priority: 9, Key: by(user), Limits: limits("1/h")},
				{ID: "b", Priority: 8, Block: true},
				{ID: "c", Priority: 7, Block: true},
			},
			alice(), "reject (blocked) by b", 403, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.rules...)
			v := b.ask(tt.request)
			if got := said(v); got != tt.first || v.Status != tt.status {
				t.Errorf("got %s, status %d, want %s, status %d", got, v.Status, tt.first, tt.status)
			}
			if v.Action == engine.Reject && v.RetryAfter != headgate.Never {
				t.Errorf("denied whatever was consumed, and RetryAfter %v", v.RetryAfter)
			}
			if taken := b.store.Stats().Keys > 0; taken != tt.taken {
				t.Errorf("something was counted: %v, want %v", taken, tt.taken)
			}
		})
	}
}

func TestOverTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rule   rules.Rule
		want   string
		status int
		retry  time.Duration
	}{
		{"reject", rules.Rule{}, "reject (over limit) by a", 429, 30 * time.Minute},
		{"another status", rules.Rule{Status: 503}, "reject (over limit) by a", 503, 30 * time.Minute},
		{"drop", rules.Rule{OnLimit: rules.OnLimit{Action: rules.Drop}}, "drop (over limit) by a", 429, 30 * time.Minute},
		{"shadow", rules.Rule{OnLimit: rules.OnLimit{Action: rules.Shadow}}, "allow", 0, 0},
		{"a cost", rules.Rule{Cost: rules.Cost{Units: 2}}, "reject (over limit) by a", 429, 60 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.rule
			r.ID, r.Key, r.Limits = "a", by(user), limits("2/h")
			b := newBench(t, r)
			b.ask(alice())
			b.ask(alice())
			v := b.ask(alice())
			if got := said(v); got != tt.want || v.Status != tt.status || v.RetryAfter != tt.retry {
				t.Errorf("got %s, status %d, retry after %v, want %s, %d, %v", got, v.Status, v.RetryAfter, tt.want, tt.status, tt.retry)
			}
			if got := said(b.ask(rules.Attributes{user: "bob"})); got != "allow by a" && r.OnLimit.Action != rules.Shadow {
				t.Errorf("another client: got %s", got)
			}
			b.Advance(tt.retry)
			if v := b.ask(alice()); !v.Action.Passes() {
				t.Errorf("after RetryAfter: got %s", said(v))
			}
		})
	}
}

func TestClientOverItsOwnLimitDrainsNothingThatIsShared(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "own", Key: by(user), Limits: limits("3/h")},
		rules.Rule{ID: "tenant", Key: by(tenant), Limits: limits("10/h")},
		rules.Rule{ID: "all", Limits: limits("100/h")},
	)
	request := rules.Attributes{user: "alice", tenant: "acme"}
	for range 50 {
		b.ask(request)
	}
	left := remaining(t, b.Engine, request)
	if left["own:1"] != 0 || left["tenant:1"] != 7 || left["all:1"] != 97 {
		t.Errorf("after one client asked 50 times: got %v, want 0, 7 and 97", left)
	}
}

// The tightest of all binds: of those denied the longest to wait for, else the least that is left.
func TestTightestLimitBinds(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "a", Key: by(user), Limits: limits("5/s", "100/h")},
		rules.Rule{ID: "b", Key: by(ip), Limits: limits("4/m")},
	)
	v := b.ask(alice())
	if v.Rule.ID != "b" || v.Decision.Remaining != 3 || v.Decision.Limit != 4 {
		t.Errorf("got rule %s, %+v, want b with 3 of 4", v.Rule.ID, v.Decision)
	}
	for range 3 {
		b.ask(alice())
	}
	v = b.ask(alice())
	if v.Rule.ID != "b" || v.RetryAfter != 15*time.Second {
		t.Errorf("got %s, retry after %v, want b after 15s", said(v), v.RetryAfter)
	}
	if n := len(v.Limits()); n != 3 {
		t.Fatalf("got %d limits, want 3", n)
	}
	names := ""
	for _, l := range v.Limits() {
		names += l.Rule.ID + ":" + l.Name + " " + l.Limit.String() + ", "
	}
	if want := "a:1 5/s, a:2 100/h, b:1 4/m, "; names != want {
		t.Errorf("got %s, want %s", names, want)
	}
}

func TestCostOfARequest(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("10/h"), Cost: rules.Cost{Header: "X-Cost", Max: 1000}})
	for _, tt := range []struct {
		header string
		want   string
		left   int64
		retry  time.Duration
	}{
		{"4", "allow by a", 6, 0},
		{"", "allow by a", 5, 0},
		{"nonsense", "allow by a", 4, 0},
		{"5", "reject (over limit) by a", 4, 6 * time.Minute},
		{"11", "reject (over limit) by a", 4, headgate.Never},
		{"999999999999999999999999", "reject (over limit) by a", 4, headgate.Never},
		{"4", "allow by a", 0, 0},
	} {
		request := alice()
		request[header("x-cost")] = tt.header
		v := b.ask(request)
		if said(v) != tt.want || v.Decision.Remaining != tt.left || v.RetryAfter != tt.retry {
			t.Errorf("cost %q: got %s, %d left, retry after %v; want %s, %d, %v",
				tt.header, said(v), v.Decision.Remaining, v.RetryAfter, tt.want, tt.left, tt.retry)
		}
	}
}

func TestDecideWithARuleAsksThatRuleAlone(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "a", When: is(path, "/a"), Key: by(user), Limits: limits("1/h")},
		rules.Rule{ID: "all", Limits: limits("1/h")},
	)
	ctx := context.Background()
	var v engine.Verdict
	for _, want := range []string{"allow by a", "reject (over limit) by a"} {
		if err := b.DecideWith(ctx, alice(), engine.DecideOptions{Rule: "a"}, &v); err != nil || said(&v) != want {
			t.Errorf("got %s, %v, want %s", said(&v), err, want)
		}
	}
	unknown := engine.DecideOptions{Rule: "nobody"}
	if err := b.DecideWith(ctx, alice(), unknown, &v); !errors.Is(err, engine.ErrNoRule) {
		t.Errorf("got %v, want %v", err, engine.ErrNoRule)
	}
	if got := said(b.ask(alice())); got != "allow by all" {
		t.Errorf("got %s, want the other rule untouched", got)
	}
}

func TestDecideMoreTakesNoFurtherPlace(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("1 concurrent", "10/h")})
	ctx := context.Background()
	var stream, message engine.Verdict
	if err := b.Decide(ctx, alice(), &stream); err != nil || stream.Action != engine.Allow {
		t.Fatalf("got %s, %v", said(&stream), err)
	}
	for range 5 {
		if err := b.DecideMore(ctx, alice(), &message); err != nil || message.Action != engine.Allow || message.NeedsSettle() {
			t.Fatalf("a message: got %s, %v, settles %v", said(&message), err, message.NeedsSettle())
		}
	}
	if left := remaining(t, b.Engine, alice()); left["a:1"] != 0 || left["a:2"] != 4 {
		t.Errorf("got %v, want the place taken once and 6 messages", left)
	}
	if v := b.ask(alice()); v.Action != engine.Reject {
		t.Errorf("another stream: got %s", said(v))
	}
	settle(t, &stream, nil)
	if v := b.ask(alice()); v.Action != engine.Allow {
		t.Errorf("another stream after the first has ended: got %s", said(v))
	}
}

func TestOutcomesTellWhatEveryRuleSaid(t *testing.T) {
	var seen []engine.Outcome
	b := newBenchWith(t, engine.Config{Observe: func(v *engine.Verdict) { seen = append(seen[:0], v.Outcomes()...) }},
		rules.Rule{ID: "own", Key: by(user), Limits: limits("1/h")},
		rules.Rule{ID: "watched", Key: by(user), Limits: limits("1/h"), OnLimit: rules.OnLimit{Action: rules.Shadow}},
		rules.Rule{ID: "skipped", Key: by(tenant), Limits: limits("1/h"), Fallback: rules.FallbackSkip},
		rules.Rule{ID: "shadow-block", Block: true, OnLimit: rules.OnLimit{Action: rules.Shadow}},
	)
	for _, denied := range []bool{false, true} {
		v := b.ask(alice())
		if v.Action.Passes() == denied {
			t.Errorf("got %s", said(v))
		}
		got := map[string]engine.Outcome{}
		for _, o := range seen {
			got[o.Rule.ID] = o
			if o.Mode != rules.Local || o.Rule != b.Rules().Rule(o.Rule.ID) {
				t.Errorf("%s: mode %s, or not the set's rule", o.Rule.ID, o.Mode)
			}
		}
		if len(got) != 4 {
			t.Fatalf("got %d rules, want 4", len(got))
		}
		if o := got["own"]; o.Denied != denied || !o.Checked || o.Shadow || len(o.Limits) != 1 {
			t.Errorf("own: got %+v, want denied %v", o, denied)
		}
		if o := got["watched"]; o.Denied != denied || !o.Checked || !o.Shadow || len(o.Limits) != 1 || !o.Limits[0].Shadow {
			t.Errorf("watched: got %+v, want denied %v", o, denied)
		}
		if o := got["skipped"]; o.Denied || o.Checked || o.Effect != match.Skipped {
			t.Errorf("skipped: got %+v", o)
		}
		if o := got["shadow-block"]; !o.Denied || !o.Shadow || o.Effect != match.Blocked {
			t.Errorf("shadow-block: got %+v", o)
		}
	}
}

func TestSomeDecisionsAreMeasured(t *testing.T) {
	measured := 0
	b := newBenchWith(t, engine.Config{Observe: func(v *engine.Verdict) {
		if v.Duration > 0 {
			measured++
		}
	}}, rules.Rule{ID: "a", Limits: limits("1/h")})
	for range 4000 {
		b.ask(alice())
	}
	if measured < 40 || measured > 400 {
		t.Errorf("%d of 4000 decisions were measured, want about 125", measured)
	}
}

func TestEndedContext(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("1/h")})
	ctx, end := context.WithCancel(context.Background())
	end()
	var v engine.Verdict
	if err := b.Decide(ctx, alice(), &v); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if v.Action != engine.Allow || v.Rule != nil || len(v.Limits()) != 0 {
		t.Errorf("got %s, want a verdict that holds nothing", said(&v))
	}
	if err := b.Decide(nil, alice(), &v); !errors.Is(err, headgate.ErrNilContext) { //nolint:staticcheck // that is what is tested
		t.Errorf("got %v, want %v", err, headgate.ErrNilContext)
	}
	if got := said(b.ask(alice())); got != "allow by a" {
		t.Errorf("got %s, want nothing taken before", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	store := newStore(t, memstore.Options{})
	for _, tt := range []struct {
		name string
		c    engine.Config
	}{
		{"no store", engine.Config{}},
		{"a mode that is Store's", engine.Config{Store: store, Modes: map[rules.Consistency]headgate.Limiter{rules.Exact: store}}},
		{"a mode without a limiter", engine.Config{Store: store, Modes: map[rules.Consistency]headgate.Limiter{rules.Lease: nil}}},
		{"a global store for a mode that has none", engine.Config{Store: store, Global: map[rules.Consistency]headgate.Limiter{rules.Gossip: store}}},
		{"a global mode without a limiter", engine.Config{Store: store, Global: map[rules.Consistency]headgate.Limiter{rules.Exact: nil}}},
		{"rules that need a global store", engine.Config{Store: store, Rules: compile(t, []rules.Rule{
			{ID: "a", Limits: limits("1/s"), Scope: rules.ScopeGlobal},
		})}},
		{"rules that need a mode", engine.Config{Store: store, Rules: compile(t, []rules.Rule{
			{ID: "a", Limits: limits("1/s"), Consistency: rules.Lease},
		})}},
	} {
		if _, err := engine.New(tt.c); err == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
}

// Two values of what a client is counted by are a bad request, and take nothing. In the shadow they have no say.
func TestKeyThatIsSentTwiceIsABadRequest(t *testing.T) {
	id, err := identity.New(identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	token := headgate.Attribute{Kind: headgate.AttrQuery, Name: "token"}
	read := func(target string) *identity.Attributes {
		var who identity.Attributes
		id.Read(httptest.NewRequest(http.MethodGet, target, nil), &who)
		return &who
	}
	b := newBench(t, rules.Rule{ID: "a", Key: by(token), Limits: limits("2/h"), Fallback: rules.FallbackSkip}, rules.Rule{ID: "b", Limits: limits("9/h")})
	v := b.ask(read("/?token=other&token=real"))
	if said(v) != "reject (unidentified) by a" || v.Status != http.StatusBadRequest || v.RetryAfter != headgate.Never {
		t.Errorf("got %s with %d, retry after %v", said(v), v.Status, v.RetryAfter)
	}
	if v := b.ask(read("/?token=real")); said(v) != "allow by a" || v.Decision.Remaining != 1 {
		t.Errorf("got %s, %d left", said(v), v.Decision.Remaining)
	}
	if left := remaining(t, b.Engine, read("/")); left["b:1"] != 8 {
		t.Errorf("got %v, want 8: what is denied takes nothing", left)
	}
	b = newBench(t, rules.Rule{ID: "a", Key: by(token), Limits: limits("2/h"), OnLimit: inShadow})
	if v := b.ask(read("/?token=other&token=real")); v.Action != engine.Allow || !v.Outcomes()[0].Denied {
		t.Errorf("in the shadow: got %s, denied %v", said(v), v.Outcomes()[0].Denied)
	}
}
