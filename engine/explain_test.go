package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

func explain(t testing.TB, e *engine.Engine, s rules.Subject) *engine.Explanation {
	t.Helper()
	x, err := e.Explain(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestExplainTakesNothingAndTellsAll(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "own", Key: by(user, path), Limits: limits("3/h", "10/d fixed-window"), Cost: rules.Cost{Units: 2}},
		rules.Rule{ID: "fallback", Key: by(tenant), Limits: limits("5/h")},
		rules.Rule{ID: "all", Limits: limits("100/h")},
		rules.Rule{ID: "watched", Key: by(user), Limits: limits("1/h"), OnLimit: inShadow},
		rules.Rule{ID: "override", Key: by(user), Limits: limits("1/h"), Overrides: []rules.Override{
			{When: is(user, "bob"), Limits: limits("2/h")}, {When: is(user, "alice"), Limits: limits("7/h")},
		}},
		rules.Rule{ID: "client", Key: by(user), Limits: limits("1/h")},
	)
	if err := b.AddClient(rules.Client{ID: "alice", Rules: []rules.ClientRule{{ID: "client", Unlimited: true}}}); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		explain(t, b.Engine, alice())
	}
	x := explain(t, b.Engine, alice())
	if b.store.Stats().Keys != 0 {
		t.Error("something was taken")
	}
	if said(&x.Verdict) != "allow by own" || len(x.Rules) != 6 {
		t.Errorf("got %s, %d rules", said(&x.Verdict), len(x.Rules))
	}
	got := map[string]engine.RuleExplanation{}
	for _, r := range x.Rules {
		got[r.Rule.ID] = r
	}
	own := got["own"]
	if own.Cost != 2 || own.Shared || own.Denied || len(own.Key) != 2 || own.Key[0] != (engine.KeyPart{Attribute: user, Value: "alice"}) ||
		len(own.Limits) != 2 || own.Limits[1].Decision.Remaining != 10 {
		t.Errorf("own: got %+v", own)
	}
	if f := got["fallback"]; len(f.Key) != 1 || f.Key[0] != (engine.KeyPart{Attribute: ip, Value: "192.0.2.1"}) || f.Shared {
		t.Errorf("fallback: got %+v", f)
	}
	if a := got["all"]; !a.Shared || len(a.Key) != 0 || a.Override != -1 {
		t.Errorf("all: got %+v", a)
	}
	if o := got["override"]; o.Override != 1 || o.Limits[0].Decision.Remaining != 7 || o.Client != "alice" {
		t.Errorf("override: got %+v", o)
	}
	if c := got["client"]; c.Effect != match.Unlimited || c.Client != "alice" || len(c.Limits) != 0 {
		t.Errorf("client: got %+v", c)
	}

	b.ask(alice())
	x = explain(t, b.Engine, alice())
	if said(&x.Verdict) != "reject (over limit) by own" || x.Verdict.RetryAfter != 20*time.Minute || x.Verdict.Status != 429 {
		t.Errorf("got %s after %v, status %d", said(&x.Verdict), x.Verdict.RetryAfter, x.Verdict.Status)
	}
	for _, r := range x.Rules {
		if want := r.Rule.ID == "own" || r.Rule.ID == "watched"; r.Denied != want {
			t.Errorf("%s: denied %v, want %v", r.Rule.ID, r.Denied, want)
		}
	}
	settle(t, &x.Verdict, nil)
	cancel(t, &x.Verdict)
	b.Advance(20*time.Minute - time.Microsecond)
	if x := explain(t, b.Engine, alice()); x.Verdict.Action != engine.Reject {
		t.Errorf("a microsecond early: got %s", said(&x.Verdict))
	}
	b.Advance(time.Microsecond)
	if x := explain(t, b.Engine, alice()); x.Verdict.Action != engine.Allow {
		t.Errorf("got %s", said(&x.Verdict))
	}
}

// What Explain says and what Decide then says are the same.
func TestExplainForesees(t *testing.T) {
	for _, list := range [][]rules.Rule{
		{{ID: "a", Key: by(user), Limits: limits("3/s"), OnLimit: delayed(2 * time.Second)}},
		{{ID: "a", Key: by(user), Limits: limits("3/s leaky-bucket burst 5"), OnLimit: delayed(2 * time.Second)}},
		{{ID: "a", Key: by(user), Limits: limits("7/m", "20/h sliding-window")}, {ID: "b", Limits: limits("9/m")}},
		{{ID: "a", Key: by(user), Limits: limits("5/m fixed-window"), OnLimit: rules.OnLimit{Action: rules.Drop}}},
		{{ID: "a", Key: by(user), Limits: limits("4 concurrent")}, {ID: "b", When: is(path, "/x"), Block: true}},
		{{ID: "a", Key: by(user), Limits: limits("2/m"), CountRejected: true}},
	} {
		b := newBench(t, list...)
		for i := range 30 {
			x := explain(t, b.Engine, alice())
			v := b.ask(alice())
			if said(&x.Verdict) != said(v) || x.Verdict.Status != v.Status || !near(x.Verdict.Delay, v.Delay) {
				t.Errorf("%s, request %d: got %s, %v, foreseen %s, %v", list[0].Limits[0].Limit, i, said(v), v.Delay, said(&x.Verdict), x.Verdict.Delay)
			}
			b.Advance(50 * time.Millisecond)
		}
	}
	b := newBench(t, rules.Rule{ID: "a", Block: true})
	if x := explain(t, b.Engine, alice()); said(&x.Verdict) != "reject (blocked) by a" || !x.Rules[0].Denied {
		t.Errorf("got %s", said(&x.Verdict))
	}
}

func TestExplainNamesStoresThatFail(t *testing.T) {
	f := newFailing(t, rules.Rule{ID: "here", Limits: limits("5/h"), Consistency: rules.Local}, rules.Rule{ID: "a", Limits: limits("5/h")})
	x, err := f.Explain(context.Background(), alice())
	if !errors.Is(err, errBroken) || len(x.Rules) != 2 || x.Rules[0].Degraded || !x.Rules[1].Degraded || !x.Verdict.Degraded {
		t.Errorf("got %+v, %v", x.Rules, err)
	}
	if _, err := f.Explain(nil, alice()); !errors.Is(err, headgate.ErrNilContext) { //nolint:staticcheck // that is what is tested
		t.Errorf("got %v", err)
	}
}

// policed is a limiter that decides by policy, as its store cannot be asked, and knows why.
type policed struct {
	headgate.Limiter
	why error
}

func (p policed) Peek(_ context.Context, c headgate.Check) (headgate.Decision, error) {
	d := headgate.Decision{Allowed: c.OnFailure != headgate.Closed, Degraded: true, Limit: c.Limit.Capacity()}
	if d.Allowed {
		d.Remaining = d.Limit
	} else {
		d.RetryAfter = time.Second
	}
	return d, nil
}

func (p policed) Fault(headgate.Check) error { return p.why }

// What is left in a store that cannot be asked is unknown, also if a guard in front of it decides by policy.
func TestExplainNamesStoresThatAreDegraded(t *testing.T) {
	for _, why := range []error{errBroken, nil} {
		e := newEngine(t, engine.Config{
			Store: policed{newStore(t, memstore.Options{}), why}, Shared: true, OnError: func(error) {},
			Rules: compile(t, []rules.Rule{
				{ID: "opens", Limits: limits("5/h")}, {ID: "closes", Limits: limits("5/h"), OnFailure: headgate.Closed},
			}),
		})
		x, err := e.Explain(t.Context(), alice())
		if err == nil || why != nil && !errors.Is(err, why) || !strings.Contains(err.Error(), "rule opens") ||
			!strings.Contains(err.Error(), "rule closes") {
			t.Errorf("got %v, want both rules named, because of %v", err, why)
		}
		if !x.Rules[0].Degraded || x.Rules[0].Denied || !x.Rules[1].Degraded || !x.Rules[1].Denied ||
			x.Verdict.Reason != engine.StoreFailed || !x.Verdict.Degraded {
			t.Errorf("got %s, %+v", said(&x.Verdict), x.Rules)
		}
	}
}

func TestExplainWithOptions(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "a", When: is(path, "/a"), Key: by(user), Limits: limits("10/h")},
		rules.Rule{ID: "b", Key: by(user), Limits: limits("10/h", "5 concurrent")})
	ctx := context.Background()
	for _, tt := range []struct {
		options engine.DecideOptions
		want    string
		cost    int64
	}{
		{engine.DecideOptions{}, "allow by b", 1},
		{engine.DecideOptions{Cost: 7, HasCost: true}, "allow by b", 7},
		{engine.DecideOptions{Cost: 11, HasCost: true}, "reject (over limit) by b", 11},
		{engine.DecideOptions{Rule: "a", Cost: 11, HasCost: true}, "reject (over limit) by a", 11},
		{engine.DecideOptions{HasCost: true}, "allow by b", 0},
	} {
		x, err := b.ExplainWith(ctx, alice(), tt.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := said(&x.Verdict); got != tt.want || len(x.Rules) != 1 || x.Rules[0].Cost != tt.cost {
			t.Errorf("%+v: got %s, %+v; want %s", tt.options, got, x.Rules, tt.want)
		}
	}
	if _, err := b.ExplainWith(ctx, alice(), engine.DecideOptions{Rule: "x"}); !errors.Is(err, engine.ErrNoRule) {
		t.Errorf("got %v", err)
	}
	if _, err := b.ExplainWith(ctx, alice(), costs(-1)); !errors.Is(err, headgate.ErrInvalidCheck) {
		t.Errorf("got %v", err)
	}
}
