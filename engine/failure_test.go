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
)

// A failing is an engine whose shared store is broken.
type failing struct {
	*engine.Engine
	t            testing.TB
	local, exact *recorder
	errs         []error
}

func newFailing(t testing.TB, list ...rules.Rule) *failing {
	t.Helper()
	f := &failing{t: t}
	b := newBench(t)
	f.local, _, f.exact, _ = stores(t, b)
	f.Engine = newEngine(t, engine.Config{
		Store: f.exact, Local: f.local, Shared: true, Rules: compile(t, list),
		OnError: func(err error) {
			recording.Lock()
			defer recording.Unlock()
			f.errs = append(f.errs, err)
		},
	})
	f.exact.breaks(errBroken)
	return f
}

func (f *failing) ask() *engine.Verdict { return decide(f.t, f.Engine, alice()) }

func TestPoliciesDecideWhenTheStoreFails(t *testing.T) {
	safe := headgate.PerHour(2)
	own := rules.Rule{ID: "a", Key: by(user), Limits: limits("3/h")}
	with := func(p headgate.Policy) rules.Rule { r := own; r.OnFailure = p; return r }
	safely := with(headgate.Local)
	safely.Safe = &safe
	other := rules.Rule{ID: "b", Limits: limits("100/h")}
	closed := other
	closed.OnFailure = headgate.Closed
	drop := with(headgate.Closed)
	drop.OnLimit.Action = rules.Drop
	for _, tt := range []struct {
		name   string
		rules  []rules.Rule
		passes int // of ten
		denied string
		status int
	}{
		{"open", []rules.Rule{with(headgate.Open)}, 10, "", 0},
		{"closed", []rules.Rule{with(headgate.Closed)}, 0, "reject (store failed) by a", 503},
		{"closed is not over the limit", []rules.Rule{drop}, 0, "reject (store failed) by a", 503},
		{"local", []rules.Rule{with(headgate.Local)}, 3, "reject (over limit) by a", 429},
		{"local with a safe limit", []rules.Rule{safely}, 2, "reject (over limit) by a", 429},
		{"closed beats open", []rules.Rule{with(headgate.Open), closed}, 0, "reject (store failed) by b", 503},
		{"closed beats local", []rules.Rule{with(headgate.Local), closed}, 0, "reject (store failed) by b", 503},
		{"local beside open", []rules.Rule{with(headgate.Local), other}, 3, "reject (over limit) by a", 429},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFailing(t, tt.rules...)
			passes := 0
			for range 10 {
				v := f.ask()
				if !v.Degraded {
					t.Fatalf("got %s, not degraded", said(v))
				}
				if v.Action.Passes() {
					passes++
					settle(t, v, nil) // gives nothing back to nobody
				} else if said(v) != tt.denied || v.Status != tt.status || v.RetryAfter <= 0 || v.RetryAfter > time.Hour {
					t.Fatalf("got %s, status %d, retry after %v, want %s, %d", said(v), v.Status, v.RetryAfter, tt.denied, tt.status)
				}
			}
			if passes != tt.passes {
				t.Errorf("%d of 10 passed, want %d", passes, tt.passes)
			}
			if len(f.errs) != 10 || !errors.Is(f.errs[0], errBroken) || !strings.Contains(f.errs[0].Error(), "exact store") {
				t.Errorf("got %d errors, the first %v, want one a request", len(f.errs), f.errs[0])
			}
			f.exact.breaks(nil)
			if v := f.ask(); v.Degraded || v.Action != engine.Allow {
				t.Errorf("with the store back: got %s, degraded %v", said(v), v.Degraded)
			}
		})
	}
}

func TestCostThatNeverPassesIsDeniedWhateverThePolicy(t *testing.T) {
	for _, policy := range []headgate.Policy{headgate.Open, headgate.Closed, headgate.Local} {
		f := newFailing(t, rules.Rule{ID: "a", Limits: limits("5/h"), Cost: rules.Cost{Header: "X-Cost", Max: 9}, OnFailure: policy})
		request := alice()
		request[header("x-cost")] = "6"
		v := decide(t, f.Engine, request)
		if said(v) != "reject (over limit) by a" || v.RetryAfter != headgate.Never || v.Status != 429 {
			t.Errorf("%s: got %s, retry after %v, status %d", policy, said(v), v.RetryAfter, v.Status)
		}
	}
}

// Nobody waits for a safe limit: it has no line.
func TestSafeLimitDoesNotDelay(t *testing.T) {
	safe := headgate.PerHour(2)
	f := newFailing(t, rules.Rule{
		ID: "a", Key: by(user), Limits: limits("10/s burst 5"), OnLimit: delayed(time.Second), OnFailure: headgate.Local, Safe: &safe,
	})
	for i, want := range []string{"allow by a", "allow by a", "reject (over limit) by a"} {
		v := f.ask()
		if said(v) != want || v.Decision.Limit != 2 {
			t.Errorf("request %d: got %s, a limit of %d, want %s of 2", i, said(v), v.Decision.Limit, want)
		}
	}
}

// What a policy denies is not the client's fault.
func TestClosedIsNoDenialThatIsPunished(t *testing.T) {
	f := newFailing(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("5/h"), OnFailure: headgate.Closed, Penalty: strict(), CountRejected: true})
	for range 10 {
		if v := f.ask(); said(v) != "reject (store failed) by a" {
			t.Fatalf("got %s", said(v))
		}
	}
	f.exact.breaks(nil)
	if v := f.ask(); v.Outcomes()[0].Penalized || v.Decision.Remaining != 4 {
		t.Errorf("got %+v, want a client that has done nothing", v.Outcomes()[0])
	}
}

// What other stores have taken is given back when a policy denies.
func TestClosedGivesBackWhatOthersTook(t *testing.T) {
	f := newFailing(t,
		rules.Rule{ID: "here", Key: by(user), Limits: limits("5/h"), Consistency: rules.Local},
		rules.Rule{ID: "a", Key: by(user), Limits: limits("5/h"), OnFailure: headgate.Closed},
	)
	for range 20 {
		if v := f.ask(); said(v) != "reject (store failed) by a" {
			t.Fatalf("got %s", said(v))
		}
	}
	f.exact.breaks(nil)
	if left := remaining(t, f.Engine, alice()); left["here:1"] != 5 || left["a:1"] != 5 {
		t.Errorf("got %v, want nothing taken", left)
	}
}

func TestWhatWasCountedLocallyIsGivenBackLocally(t *testing.T) {
	f := newFailing(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("2 concurrent"), OnFailure: headgate.Local})
	first := f.ask()
	f.ask()
	if v := f.ask(); v.Action != engine.Reject {
		t.Fatalf("got %s", said(v))
	}
	f.exact.breaks(nil) // meanwhile the store is back
	settle(t, first, nil)
	f.exact.breaks(errBroken)
	if v := f.ask(); v.Action != engine.Allow {
		t.Errorf("got %s, want the place that was given back", said(v))
	}
}

func TestLocalWithoutALocalStoreLetsPass(t *testing.T) {
	b := newBench(t)
	_, _, exact, _ := stores(t, b)
	var errs []error
	e := newEngine(t, engine.Config{
		Store: exact, Shared: true, OnError: func(err error) { errs = append(errs, err) },
		Rules: compile(t, []rules.Rule{{ID: "a", Limits: limits("1/h"), OnFailure: headgate.Local}}),
	})
	exact.breaks(errBroken)
	for range 3 {
		if v := decide(t, e, alice()); v.Action != engine.Allow || !v.Degraded {
			t.Errorf("got %s", said(v))
		}
	}
	if len(errs) != 6 || !strings.Contains(errs[1].Error(), "no Local store") {
		t.Errorf("got %v", errs)
	}
}

func TestLocalThatFailsAsWellLetsPass(t *testing.T) {
	f := newFailing(t, rules.Rule{ID: "a", Limits: limits("1/h"), OnFailure: headgate.Local})
	f.local.breaks(errBroken)
	if v := f.ask(); v.Action != engine.Allow || !v.Degraded || len(f.errs) != 2 {
		t.Errorf("got %s, errors %v", said(v), f.errs)
	}
}

func TestShadowsOfAStoreThatFailsChangeNothing(t *testing.T) {
	f := newFailing(t,
		rules.Rule{ID: "here", Key: by(user), Limits: limits("5/h"), Consistency: rules.Local},
		rules.Rule{ID: "s", Key: by(user), Limits: limits("5/h"), OnFailure: headgate.Closed, OnLimit: inShadow},
	)
	v := f.ask()
	if said(v) != "allow by here" || v.Degraded || len(f.errs) != 1 {
		t.Errorf("got %s, degraded %v, errors %v", said(v), v.Degraded, f.errs)
	}
	if o := v.Outcomes()[1]; !o.Degraded || !o.Denied {
		t.Errorf("got %+v, want that it was degraded", o)
	}
}

// A request that has ended is no failure of the store.
func TestEndedRequestIsNoFailure(t *testing.T) {
	f := newFailing(t, rules.Rule{ID: "here", Limits: limits("5/h"), Consistency: rules.Local}, rules.Rule{ID: "a", Limits: limits("5/h")})
	ctx, end := context.WithCancel(context.Background())
	ends := &ending{Limiter: f.exact.Limiter, end: end}
	f.exact.breaks(nil)
	f.exact.Limiter = ends
	var v engine.Verdict
	if err := f.Decide(ctx, alice(), &v); !errors.Is(err, context.Canceled) || len(f.errs) != 0 {
		t.Errorf("got %v, reported %v", err, f.errs)
	}
	f.exact.Limiter = ends.Limiter
	if left := remaining(t, f.Engine, alice()); left["here:1"] != 5 {
		t.Errorf("%d left, want what was taken before given back", left["here:1"])
	}
}

// An ending store ends the request that asks it.
type ending struct {
	headgate.Limiter
	end func()
}

func (e *ending) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	e.end()
	return e.Limiter.TakeAll(ctx, checks, dst)
}

func TestStoreThatIsFullIsAFailure(t *testing.T) {
	store := newStore(t, memstore.Options{MaxBytes: 8 << 20})
	var errs int
	e := newEngine(t, engine.Config{
		Store: store, OnError: func(err error) {
			if !errors.Is(err, headgate.ErrFull) {
				t.Errorf("got %v, want %v", err, headgate.ErrFull)
			}
			errs++
		},
		Rules: compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/d sliding-buckets 960")}}),
	})
	name := []byte("user-00000000")
	for i := 0; errs == 0 && i < 1<<20; i++ {
		for j, n := len(name)-1, i; n > 0; j, n = j-1, n/10 {
			name[j] = byte('0' + n%10)
		}
		request := rules.Attributes{user: string(name)}
		decide(t, e, request)
		if v := decide(t, e, request); errs == 0 && v.Action != engine.Reject { // who is denied is not evicted
			t.Fatalf("got %s", said(v))
		}
	}
	if errs == 0 {
		t.Error("the store is never full")
	}
}
