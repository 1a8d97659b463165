package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

func TestRaisedLimitHelpsAtOnce(t *testing.T) {
	for _, algorithm := range []string{"", " gcra", " leaky-bucket", " fixed-window", " sliding-window", " sliding-log", " sliding-buckets"} {
		b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("3/h" + algorithm)})
		if got := b.passes(alice()); got != 3 {
			t.Fatalf("%s: %d passed, want 3", algorithm, got)
		}
		for _, change := range []struct {
			limit string
			want  int
		}{{"5/h", 2}, {"5/h", 0}, {"4/h", 0}, {"6/h", 1}} {
			set := compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits(change.limit + algorithm)}})
			if err := b.SetRules(set); err != nil {
				t.Fatal(err)
			}
			if got := b.passes(alice()); got != change.want {
				t.Errorf("%s: %d passed after the limit became %s, want %d", algorithm, got, change.limit, change.want)
			}
		}
	}
}

func TestRulesThatCannotBeKeptAreRefused(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Limits: limits("3/h")})
	inForce := b.Rules()
	for _, tt := range []struct {
		rule rules.Rule
		want string
	}{
		{rules.Rule{ID: "x", Limits: limits("3/h"), Consistency: rules.Lease}, "rule x: consistency: lease: want exact or local"},
		{rules.Rule{ID: "x", Limits: limits("3/h"), Consistency: rules.Gossip}, "gossip"},
		{rules.Rule{ID: "x", Limits: limits("300/h"), Split: 4, OnLimit: delayed(time.Minute)}, "split"},
	} {
		set, err := match.Compile([]rules.Rule{tt.rule})
		if err == nil {
			err = b.SetRules(set)
		}
		if !errors.Is(err, rules.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	if b.Rules() != inForce {
		t.Error("the rules in force have changed")
	}
	if err := b.SetRules(nil); err != nil || b.Rules().Len() != 0 {
		t.Errorf("got %v, %d rules, want none", err, b.Rules().Len())
	}
	if v := b.ask(alice()); said(v) != "allow" {
		t.Errorf("got %s", said(v))
	}
}

// One request sees one set of rules, whatever happens meanwhile; and no counter is lost.
func TestReloadUnderLoad(t *testing.T) {
	now := time.Now() // all the time, so that nothing comes back meanwhile
	store := newStore(t, memstore.Options{Now: func() time.Time { return now }})
	const users, count = 4, 2000
	// Both limits of the rule are of the same revision, and so is its status.
	set := func(revision int) *match.Set {
		status := 429
		if revision%2 == 1 {
			status = 503
		}
		name := fmt.Sprint("revision ", revision%2)
		return compile(t, []rules.Rule{
			{ID: "a", Description: name, Key: by(user), Status: status, Limits: limits(fmt.Sprint(count, "/d"), fmt.Sprint(count+revision, "/d fixed-window"))},
			{ID: "b", Description: name, Key: by(ip), Limits: limits("1000000/s")},
			{ID: "c", Description: name, OnLimit: inShadow, Limits: limits("10/s")},
		})
	}
	e := newEngine(t, engine.Config{Store: store, Rules: set(0)})
	var passed [users]atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for n := range users {
		for range 2 {
			all.Go(func() {
				request := rules.Attributes{user: fmt.Sprint("user", n), ip: "192.0.2.1"}
				var v engine.Verdict
				for {
					select {
					case <-stop:
						return
					default:
					}
					if err := e.Decide(context.Background(), request, &v); err != nil {
						t.Error(err)
						return
					}
					if v.Action.Passes() {
						passed[n].Add(1)
					}
					first := v.Outcomes()[0].Rule.Description
					for _, o := range v.Outcomes() {
						if o.Rule.Description != first {
							t.Errorf("rules of %s and %s in one request", first, o.Rule.Description)
							return
						}
					}
				}
			})
		}
	}
	for i := range 100 {
		if err := e.SetRules(set(i)); err != nil {
			t.Error(err)
		}
		if i%10 == 0 {
			if err := e.AddClient(rules.Client{ID: fmt.Sprint("c", i)}); err != nil {
				t.Error(err)
			}
		}
	}
	deadline := time.Now().Add(time.Minute)
	for n := range users {
		for passed[n].Load() < count && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
	}
	close(stop)
	all.Wait()
	for n := range users {
		if got := passed[n].Load(); got != count {
			t.Errorf("user %d passed %d times, want %d: counters were lost or counted twice", n, got, count)
		}
	}
}

func TestModesOfTheStore(t *testing.T) {
	b := newBench(t)
	local, lease, exact, _ := stores(t, b)
	list := []rules.Rule{{ID: "a", Limits: limits("1/h")}}
	for _, shared := range []bool{false, true} {
		e := newEngine(t, engine.Config{
			Store: exact, Local: local, Shared: shared, Rules: compile(t, list),
			Modes: map[rules.Consistency]headgate.Limiter{rules.Lease: lease},
		})
		want := rules.Local
		if shared {
			want = rules.Exact
		}
		if got := decide(t, e, alice()).Outcomes()[0].Mode; got != want {
			t.Errorf("shared %v: got %s, want %s", shared, got, want)
		}
	}
}

// Limits that regions have together are counted by a store of their own, whatever the mode inside a region.
func TestGlobalLimitsHaveAStoreOfTheirOwn(t *testing.T) {
	b := newBench(t)
	local, far, exact, log := stores(t, b)
	near := rules.Rule{ID: "near", Limits: limits("1/h"), Partition: headgate.PartitionShare, Consistency: rules.Async}
	wide := rules.Rule{ID: "wide", Limits: limits("2/h"), Scope: rules.ScopeGlobal}
	e := newEngine(t, engine.Config{
		Store: exact, Local: local, Shared: true, Rules: compile(t, []rules.Rule{wide}),
		Modes:  map[rules.Consistency]headgate.Limiter{rules.Async: local},
		Global: map[rules.Consistency]headgate.Limiter{rules.Exact: far},
	})
	for i, want := range []engine.Action{engine.Allow, engine.Allow, engine.Reject} {
		if v := decide(t, e, alice()); v.Action != want || v.Outcomes()[0].Mode != rules.Exact {
			t.Errorf("request %d: got %s by %s, want %s by exact", i+1, v.Action, v.Outcomes()[0].Mode, want)
		}
	}
	for _, asked := range *log {
		if !strings.HasPrefix(asked, "lease") { // which is what this recorder is called
			t.Errorf("asked %s, want the global store alone", asked)
		}
	}
	if err := e.SetRules(compile(t, []rules.Rule{near})); err != nil {
		t.Fatal(err)
	}
	lease := wide
	lease.Consistency = rules.Lease
	err := e.SetRules(compile(t, []rules.Rule{lease}))
	if err == nil || !strings.Contains(err.Error(), "scope") {
		t.Errorf("got %v, want the scope refused: there is no global store for leases", err)
	}
}
