package engine_test

import (
	"context"
	"slices"
	"testing"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

var inShadow = rules.OnLimit{Action: rules.Shadow}

// A shadow rule is decided and charged on its own: it denies nothing, and what others deny it has counted all the same.
func TestShadowRulesCountAndDenyNothing(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "own", Key: by(user), Limits: limits("2/h")},
		rules.Rule{ID: "tight", Key: by(user), Limits: limits("1/h", "100/h"), OnLimit: inShadow},
		rules.Rule{ID: "wide", Key: by(user), Limits: limits("50/h"), OnLimit: inShadow},
	)
	var would []bool
	for i := range 5 {
		v := b.ask(alice())
		if passes := i < 2; v.Action.Passes() != passes {
			t.Errorf("request %d: got %s", i, said(v))
		}
		if v.Rule.ID != "own" {
			t.Errorf("request %d: rule %s binds", i, v.Rule.ID)
		}
		for _, o := range v.Outcomes() {
			if o.Rule.ID == "tight" {
				would = append(would, o.Denied)
			}
		}
	}
	if want := []bool{false, true, true, true, true}; !slices.Equal(would, want) {
		t.Errorf("the shadow would have denied %v, want %v", would, want)
	}
	// All or none within the rule, and each rule for itself.
	left := remaining(t, b.Engine, alice())
	if left["own:1"] != 0 || left["tight:1"] != 0 || left["tight:2"] != 99 || left["wide:1"] != 45 {
		t.Errorf("got %v, want 0, 0, 99 and 45", left)
	}
	// Nor is it undone.
	v := b.ask(rules.Attributes{user: "bob"})
	cancel(t, v)
	if left := remaining(t, b.Engine, rules.Attributes{user: "bob"}); left["own:1"] != 2 || left["wide:1"] != 49 {
		t.Errorf("after a cancel: got %v, want 2 and 49", left)
	}
}

func TestShadowRulesNeverBlock(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "block", Block: true, OnLimit: inShadow},
		rules.Rule{ID: "known", Key: by(user), Limits: limits("1/h"), Unregistered: rules.UnregisteredDeny, OnLimit: inShadow},
		rules.Rule{ID: "named", Key: by(tenant), Limits: limits("1/h"), Fallback: rules.FallbackDeny, OnLimit: inShadow},
	)
	v := b.ask(alice())
	if said(v) != "allow" {
		t.Errorf("got %s, want allow", said(v))
	}
	for _, o := range v.Outcomes() {
		if !o.Denied || !o.Shadow {
			t.Errorf("%s: got %+v, want that it would have denied", o.Rule.ID, o)
		}
	}
}

// A place is held as long as the request is there, also in the shadow.
func TestShadowPlacesAreReleased(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "own", Key: by(user), Limits: limits("3/h")},
		rules.Rule{ID: "places", Key: by(user), Limits: limits("2 concurrent"), OnLimit: inShadow},
	)
	left := func() int64 { return remaining(t, b.Engine, alice())["places:1"] }
	first, second := b.ask(alice()), b.ask(alice())
	if left() != 0 || !first.NeedsSettle() {
		t.Errorf("%d places left with two requests, settles %v", left(), first.NeedsSettle())
	}
	third := b.ask(alice()) // the shadow would have denied it
	if third.Action != engine.Allow || !third.Outcomes()[1].Denied {
		t.Errorf("got %s, %+v", said(third), third.Outcomes())
	}
	settle(t, first, nil)
	cancel(t, second)
	settle(t, third, nil)
	if left() != 2 {
		t.Errorf("%d places left after all have ended, want 2", left())
	}
	b.ask(alice())
	if v := b.ask(alice()); v.Action != engine.Reject || left() != 1 {
		t.Errorf("got %s, %d places left, want a denial that holds none", said(v), left())
	}
}

// Stores that are asked over a network are asked for shadows at the same time, and none is left behind.
func TestShadowsOfServersAreAskedMeanwhile(t *testing.T) {
	b := newBench(t)
	_, _, exact, log := stores(t, b)
	e := newEngine(t, engine.Config{Store: exact, Shared: true, Rules: compile(t, []rules.Rule{
		{ID: "own", Key: by(user), Limits: limits("1/h")},
		{ID: "s1", Key: by(user), Limits: limits("1/h"), OnLimit: inShadow},
		{ID: "s2", Key: by(user), Limits: limits("1/h"), OnLimit: inShadow, Penalty: strict(), CountRejected: true},
	})})
	for range 3 {
		decide(t, e, alice())
	}
	slices.Sort(*log)
	asked := 0
	for _, line := range *log {
		if line == "exact takeall s1:1" || line == "exact takeall own:1" {
			asked++
		}
	}
	if asked != 6 {
		t.Errorf("got %v, want each rule asked for each request", *log)
	}
	ctx, end := context.WithCancel(context.Background())
	end()
	var v engine.Verdict
	if err := e.Decide(ctx, alice(), &v); err == nil {
		t.Error("no error though the request has ended")
	}
}
