package engine_test

import (
	"errors"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

func TestWithoutAStoreThePoliciesDecideAndItIsNotAsked(t *testing.T) {
	t.Parallel()
	var log []string
	var reported []error
	remote := &recorder{Limiter: newStore(t, memstore.Options{}), name: "remote", log: &log}
	e := newEngine(t, engine.Config{
		Store: remote, Shared: true, Local: newStore(t, memstore.Options{}),
		OnError: func(err error) { reported = append(reported, err) },
		Rules: compile(t, []rules.Rule{
			{ID: "open", Key: by(user), Limits: limits("1/d")},
			{ID: "closed", Key: by(user), Limits: limits("1/d"), OnFailure: headgate.Closed},
			{ID: "local", Key: by(user), Limits: limits("1/d"), OnFailure: headgate.Local},
			{ID: "here", Key: by(user), Limits: limits("1/d"), Consistency: rules.Local},
		}),
	})
	busy := errors.New("too busy")
	for _, step := range []struct{ rule, want string }{
		{"open", "allow by open"},
		{"open", "allow by open"},
		{"closed", "reject (" + engine.StoreFailed.String() + ") by closed"},
		{"local", "allow by local"},
		{"local", "reject (" + engine.OverLimit.String() + ") by local"},
		{"here", "allow by here"},
		{"here", "reject (" + engine.OverLimit.String() + ") by here"},
	} {
		var v engine.Verdict
		if err := e.DecideWithout(t.Context(), alice(), engine.Terms{Rule: step.rule}, &v, busy); err != nil {
			t.Fatal(err)
		}
		if got := said(&v); got != step.want || v.Degraded != (step.rule != "here") {
			t.Errorf("%s: got %s, degraded %t; want %s", step.rule, got, v.Degraded, step.want)
		}
		if err := v.Settle(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	if len(log) > 0 {
		t.Errorf("got the store asked: %v", log)
	}
	if len(reported) != 5 || !errors.Is(reported[0], busy) {
		t.Errorf("got told of %v, want of the five that it could not decide", reported)
	}
	var v engine.Verdict
	if err := e.DecideTerms(t.Context(), alice(), engine.Terms{Rule: "open"}, &v); err != nil || v.Degraded || len(log) != 1 {
		t.Errorf("afterwards: got degraded %t, %v and %v; want the store asked again", v.Degraded, err, log)
	}
}
