package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/stepstore"
	"github.com/headgate/headgate/rules"
)

// onEveryStore runs a test on a store that borrows keys and on one that may keep them.
func onEveryStore(t *testing.T, list []rules.Rule, test func(*testing.T, *bench)) {
	t.Helper()
	t.Run("memstore", func(t *testing.T) { test(t, newBench(t, list...)) })
	t.Run("stepstore", func(t *testing.T) {
		b := newBench(t)
		b.Engine = newEngine(t, engine.Config{Store: stepstore.New(b.Now), Rules: compile(t, list)})
		test(t, b)
	})
}

// on decides a request on options.
func (b *bench) on(s rules.Subject, options engine.DecideOptions) *engine.Verdict {
	b.t.Helper()
	var v engine.Verdict
	if err := b.DecideWith(context.Background(), s, options, &v); err != nil {
		b.t.Fatalf("%v on %+v: %v", s, options, err)
	}
	return &v
}

func costs(n int64) engine.DecideOptions { return engine.DecideOptions{Cost: n, HasCost: true} }

func TestCostThatTheCallerSays(t *testing.T) {
	byHeader := rules.Cost{Header: "X-Cost", Max: 50}
	onEveryStore(t, []rules.Rule{
		{ID: "fixed", Key: by(user), Limits: limits("100/h", "100/d sliding-window"), Cost: rules.Cost{Units: 3}},
		{ID: "said", Key: by(user), Limits: limits("100/h"), Cost: byHeader},
		tokens("100/h"),
		{ID: "places", Key: by(user), Limits: limits("5 concurrent", "100/h")},
		{ID: "watched", Key: by(user), Limits: limits("100/h"), OnLimit: inShadow},
	}, func(t *testing.T, b *bench) {
		v := b.on(alice(), costs(7))
		want := map[string]int64{
			"fixed:1": 93, "fixed:2": 93, "said:1": 93, "tokens:1": 93, "places:1": 4, "places:2": 93, "watched:1": 93,
		}
		check := func(when string) {
			t.Helper()
			got := remaining(t, b.Engine, alice())
			for name, left := range want {
				if got[name] != left {
					t.Errorf("%s: %s: %d left, want %d", when, name, got[name], left)
				}
			}
		}
		check("taken")
		if v.ReadsResponse() || !v.NeedsSettle() {
			t.Errorf("reads the response %v, settles %v; want a cost that stands and a place to release", v.ReadsResponse(), v.NeedsSettle())
		}
		settle(t, v, map[string]string{"X-Tokens-Used": "50"})
		want["places:1"] = 5
		check("settled")
		cancel(t, b.on(alice(), costs(20)))
		want["watched:1"] = 73
		check("cancelled")
		if v := b.on(alice(), costs(101)); v.Action != engine.Reject || v.RetryAfter != headgate.Never {
			t.Errorf("more than there can be: got %s, retry after %v", said(v), v.RetryAfter)
		}
		check("denied")
	})
}

func TestPeekTakesNothing(t *testing.T) {
	penalty := strict()
	onEveryStore(t, []rules.Rule{
		{ID: "a", Key: by(user), Limits: limits("3/h", "10/d fixed-window"), Penalty: penalty, CountRejected: true},
		{ID: "b", Key: by(user), Limits: limits("9 concurrent")},
		{ID: "c", Key: by(user), Limits: limits("9/h"), OnLimit: inShadow},
		{ID: "d", Key: by(user), Limits: limits("5/s leaky-bucket"), OnLimit: delayed(time.Second)},
		tokens("100/h"),
	}, func(t *testing.T, b *bench) {
		before := remaining(t, b.Engine, alice())
		for range 20 {
			v := b.on(alice(), costs(0))
			if said(v) != "allow by a" || v.Decision.Remaining != 3 || v.NeedsSettle() || v.Delay != 0 {
				t.Fatalf("got %s, %d left, settles %v", said(v), v.Decision.Remaining, v.NeedsSettle())
			}
			if lease := v.AppendLease(nil); lease != nil {
				t.Fatalf("a peek holds %s", lease)
			}
			settle(t, v, map[string]string{"X-Tokens-Used": "50"})
			cancel(t, v)
		}
		for name, left := range remaining(t, b.Engine, alice()) {
			if left != before[name] {
				t.Errorf("%s: %d left, want %d", name, left, before[name])
			}
		}
	})
}

// A peek tells who is in debt, and counts no denial for it.
func TestPeekAtADebt(t *testing.T) {
	r := tokens("100/m")
	r.Penalty = strict()
	r.Penalty.Limits = limits("10/h")
	b := newBench(t, r)
	settle(t, b.ask(alice()), map[string]string{"X-Tokens-Used": "200"})
	for range 200 {
		v := b.on(alice(), costs(0))
		if v.Action != engine.Reject || v.Decision.Remaining != -100 || v.RetryAfter != time.Minute {
			t.Fatalf("got %s, %d left, retry after %v", said(v), v.Decision.Remaining, v.RetryAfter)
		}
	}
	b.Advance(2 * time.Minute)
	if v := b.ask(alice()); v.Action != engine.Allow || v.Outcomes()[0].Penalized {
		t.Errorf("got %s, penalized %v", said(v), v.Outcomes()[0].Penalized)
	}
}

// A peek at a line says what is left of the limit itself: what is queued is no debt.
func TestPeekAtALine(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("10/s burst 2"), OnLimit: delayed(time.Second)})
	for range 5 {
		b.on(alice(), engine.DecideOptions{NoWait: true})
	}
	if v := b.on(alice(), costs(0)); v.Action != engine.Allow || v.Decision.Remaining != 0 || v.Decision.Limit != 2 || v.Delay != 0 {
		t.Errorf("got %s, %d left of %d, held for %v", said(v), v.Decision.Remaining, v.Decision.Limit, v.Delay)
	}
}

func TestOptionsOfOneRule(t *testing.T) {
	onEveryStore(t, []rules.Rule{
		{ID: "a", When: is(path, "/a"), Key: by(user), Limits: limits("10/h")},
		{ID: "b", When: is(path, "/b"), Key: by(user), Limits: limits("10/h")},
	}, func(t *testing.T, b *bench) {
		v := b.on(alice(), engine.DecideOptions{Rule: "b", Cost: 4, HasCost: true})
		if said(v) != "allow by b" || v.Decision.Remaining != 6 {
			t.Errorf("got %s, %d left, want 6 under b", said(v), v.Decision.Remaining)
		}
		if v := b.on(alice(), engine.DecideOptions{}); v.Rule != nil {
			t.Errorf("got %s, want no rule to match", said(v))
		}
		if err := b.DecideWith(context.Background(), alice(), engine.DecideOptions{Rule: "x"}, v); !errors.Is(err, engine.ErrNoRule) {
			t.Errorf("got %v", err)
		}
	})
}

// A cost that cannot be is the caller's fault: no policy lets it pass.
func TestCostThatCannotBe(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("10/h")})
	for _, cost := range []int64{-1, headgate.MaxCount + 1} {
		var v engine.Verdict
		err := b.DecideWith(context.Background(), alice(), costs(cost), &v)
		if !errors.Is(err, headgate.ErrInvalidCheck) || !strings.Contains(err.Error(), "Cost") {
			t.Errorf("%d: got %v", cost, err)
		}
	}
	if left := remaining(t, b.Engine, alice()); left["a:1"] != 10 {
		t.Errorf("got %v, want 10", left)
	}
}

// Delays that are reported keep nobody out who waits here, and no count of those who do.
func TestDelaysWithNoWaitAreNotCounted(t *testing.T) {
	b := newBenchWith(t, engine.Config{MaxWaiting: 1},
		rules.Rule{ID: "a", Key: by(user), Limits: limits("10/s burst 1"), OnLimit: delayed(time.Second)})
	b.ask(alice())
	for i := range 5 {
		v := b.on(alice(), engine.DecideOptions{NoWait: true})
		if v.Action != engine.Delay || v.Delay != millis(100*(i+1)) || b.Waiting() != 0 {
			t.Errorf("request %d: got %s for %v, %d wait", i, said(v), v.Delay, b.Waiting())
		}
	}
	held := b.ask(alice())
	if held.Action != engine.Delay || b.Waiting() != 1 {
		t.Errorf("got %s, %d wait", said(held), b.Waiting())
	}
	if v := b.on(alice(), engine.DecideOptions{NoWait: true}); v.Action != engine.Delay {
		t.Errorf("with the line full: got %s", said(v))
	}
	if v := b.ask(alice()); v.Reason != engine.QueueFull {
		t.Errorf("with the line full: got %s", said(v))
	}
	cancel(t, held)
}

func TestPeeksAreNotObserved(t *testing.T) {
	seen := 0
	b := newBenchWith(t, engine.Config{Observe: func(*engine.Verdict) { seen++ }}, rules.Rule{ID: "a", Limits: limits("10/h")})
	b.on(alice(), costs(0))
	if seen != 0 {
		t.Errorf("%d observed, want none", seen)
	}
	b.on(alice(), costs(1))
	if seen != 1 {
		t.Errorf("%d observed, want 1", seen)
	}
}

// What could not be given back when somebody hung up is told.
func TestWaitTellsWhatItCouldNotGiveBack(t *testing.T) {
	clock := newBench(t)
	_, _, exact, _ := stores(t, clock)
	var told []error
	e := newEngine(t, engine.Config{
		Store: exact, OnError: func(err error) { told = append(told, err) },
		Rules: compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/s burst 1"), OnLimit: delayed(time.Minute)}}),
	})
	decide(t, e, alice())
	v := decide(t, e, alice())
	if v.Action != engine.Delay {
		t.Fatalf("got %s", said(v))
	}
	exact.breaks(errBroken)
	ctx, end := context.WithCancel(context.Background())
	end()
	if err := v.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(told) != 1 || !errors.Is(told[0], errBroken) {
		t.Errorf("told of %v, want the place that was not given back", told)
	}
}
