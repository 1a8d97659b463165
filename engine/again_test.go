package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
)

// DecideAgain agrees with Decide: two engines with the same history agree, one that matches every request and one that
// does so only if it must, while rules change and clients come and go.
func TestDecideAgainAgreesWithDecide(t *testing.T) {
	t.Logf("seed %d", seed)
	revisions := [][]rules.Rule{
		{{ID: "a", Key: by(user), Limits: limits("5/s burst 3")}},
		{{ID: "a", Key: by(user), Limits: limits("9/s burst 6", "20/m sliding-window")}, {ID: "b", Limits: limits("12/s")}},
		{{ID: "a", Key: by(user), Limits: limits("5/s burst 3")}, {ID: "c", When: is(path, "/"), Limits: limits("2/s gcra")}},
		{{ID: "a", Key: by(user), Limits: limits("5/s"), Penalty: aPenalty}, {ID: "b", Limits: limits("20/s")}},
		{{ID: "a", Key: by(user), Limits: limits("4/s"), OnLimit: inShadow}, {ID: "b", Limits: limits("7/s")}},
		{{ID: "a", Key: by(user), Limits: limits("5/s", "2 concurrent")}},
		{{ID: "a", Key: by(user), Limits: limits("5/s"), Overrides: []rules.Override{{When: is(user, "bob"), Limits: limits("1/s")}}}},
		{{ID: "a", Key: by(user), Limits: limits("5/s"), Unregistered: rules.UnregisteredDeny}},
		{{ID: "a", When: is(user, "bob"), Block: true}, {ID: "b", Limits: limits("3/s")}},
		nil,
	}
	people := []rules.Attributes{
		alice(), {user: "bob", ip: "192.0.2.1", path: "/"}, {user: "alice", ip: "192.0.2.1", path: "/x"}, {ip: "192.0.2.9", path: "/"},
	}
	bobs := rules.Client{
		ID: "bob", Attributes: []rules.Test{{Attribute: user, Values: []string{"bob"}}},
		Limits: limits("2/s"),
	}
	again, matched, denied := 0, 0, 0
	for h := range uint64(60) {
		from := rand.New(rand.NewPCG(seed, h))
		one, other := newBench(t), newBench(t)
		type connection struct {
			last rules.Attributes
			v    engine.Verdict
		}
		connections := make([]connection, 3)
		registered := false
		for step := range 300 {
			switch n := from.IntN(40); {
			case n == 0:
				set := compile(t, revisions[from.IntN(len(revisions))])
				if err := one.SetRules(set); err != nil {
					t.Fatal(err)
				}
				if err := other.SetRules(set); err != nil {
					t.Fatal(err)
				}
			case n == 1:
				for _, b := range []*bench{one, other} {
					if registered {
						if err := b.RemoveClient(context.Background(), "bob"); err != nil {
							t.Fatal(err)
						}
					} else if err := b.AddClient(bobs); err != nil {
						t.Fatal(err)
					}
				}
				registered = !registered
			case n < 10:
				pause := time.Duration(from.Int64N(int64(400 * time.Millisecond))).Truncate(time.Microsecond)
				one.Advance(pause)
				other.Advance(pause)
			default:
				c := &connections[from.IntN(len(connections))]
				who := c.last
				if who == nil || from.IntN(4) == 0 {
					who = people[from.IntN(len(people))]
				}
				repeats := reflect.DeepEqual(who, c.last)
				c.last = who
				ok := false
				if repeats {
					var err error
					if ok, err = one.DecideAgain(context.Background(), &c.v); err != nil {
						t.Fatal(err)
					}
				}
				if ok {
					again++
				} else {
					matched++
					if err := one.Decide(context.Background(), who, &c.v); err != nil {
						t.Fatal(err)
					}
				}
				want := other.ask(who)
				same(t, h, step, &c.v, want)
				if !want.Action.Passes() {
					denied++
				}
				settle(t, &c.v, nil)
				settle(t, want, nil)
			}
		}
	}
	t.Logf("%d decided again, %d matched, %d denied", again, matched, denied)
	if again < 1000 || matched < 1000 || denied < 500 {
		t.Errorf("%d decided again, %d matched, %d denied: want enough of each for the comparison to mean something", again, matched, denied)
	}
}

// same compares all that a verdict says.
func same(t *testing.T, history uint64, step int, got, want *engine.Verdict) {
	t.Helper()
	type words struct {
		action   engine.Action
		said     string
		status   int
		degraded bool
		smooth   bool
		settles  bool
		retry    time.Duration
		limits   []engine.Applied
		outcomes []engine.Outcome
	}
	of := func(v *engine.Verdict) words {
		return words{v.Action, said(v), v.Status, v.Degraded, v.Smooth(), v.Settles(), v.RetryAfter, v.Limits(), v.Outcomes()}
	}
	g, w := of(got), of(want)
	for _, list := range [][]engine.Applied{g.limits, w.limits} {
		for i := range list {
			list[i].Decision.Receipt.Lease = 0 // is another one each time
		}
	}
	if fmt.Sprintf("%+v", g) != fmt.Sprintf("%+v", w) || got.Decision.Remaining != want.Decision.Remaining {
		t.Fatalf("history %d, step %d: decided again:\n%+v\nanew:\n%+v", history, step, g, w)
	}
}

// A verdict of another engine, of none, or of rules that are no longer in force, is not gone by.
func TestDecidingAgainNeedsTheSameRulesAndEngine(t *testing.T) {
	list := []rules.Rule{{ID: "a", Key: by(user), Limits: limits("5/s")}}
	b := newBench(t, list...)
	var v engine.Verdict
	ask := func(why string, e *engine.Engine, want bool) {
		t.Helper()
		got, err := e.DecideAgain(context.Background(), &v)
		if err != nil || got != want {
			t.Errorf("%s: decided %v, %v; want %v", why, got, err, want)
		}
	}
	matched := func() {
		if err := b.Decide(context.Background(), alice(), &v); err != nil {
			t.Fatal(err)
		}
	}
	ask("a verdict of nothing", b.Engine, false)
	matched()
	ask("the same", b.Engine, true)
	ask("another engine", newBench(t, list...).Engine, false)
	if err := b.SetRules(compile(t, list)); err != nil {
		t.Fatal(err)
	}
	ask("rules were put in force again", b.Engine, false)
	matched()
	ask("by the new ones", b.Engine, true)
	if err := b.AddClient(rules.Client{ID: "c", Attributes: []rules.Test{{Attribute: user, Values: []string{"carol"}}}}); err != nil {
		t.Fatal(err)
	}
	ask("a client was registered", b.Engine, false)
	matched()
	ask("clients are registered", b.Engine, false)
	if err := b.RemoveClient(context.Background(), "c"); err != nil {
		t.Fatal(err)
	}
	matched()
	ask("the client is removed", b.Engine, true)
}

// A client that is registered only while its request is matched does not affect later decisions.
func TestDecidingAgainNeverGoesByAClientWhoIsGone(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("1000000/s")}, rules.Rule{ID: "b", Key: by(ip), Limits: limits("1000000/s")})
	for name, c := range map[string]rules.Client{
		"its own limits": {Limits: limits("5/s")}, "unlimited": {Unlimited: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.ID, c.Attributes = "alice", []rules.Test{{Attribute: user, Values: []string{"alice"}}}
			ended := make(chan struct{})
			var others sync.WaitGroup
			defer others.Wait()
			defer close(ended)
			others.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
					}
					if err := b.AddClient(c); err != nil {
						t.Error(err)
					}
					if err := b.RemoveClient(context.Background(), "alice"); err != nil {
						t.Error(err)
					}
				}
			})
			var v engine.Verdict
			found, repeats := 0, 0
			for i := 0; i < 2_000_000 && (found < 2000 || repeats < 2000); i++ {
				if err := b.Decide(context.Background(), alice(), &v); err != nil {
					t.Fatal(err)
				}
				registered := v.Matched()[0].Client != ""
				if registered {
					found++
				}
				if v.Repeats() {
					repeats++
					if registered {
						t.Fatalf("decision %d goes by the client %q, %v, and could be repeated", i, v.Matched()[0].Client, v.Matched()[0].Effect)
					}
				}
			}
			t.Logf("%d by the client, %d that could be repeated", found, repeats)
		})
	}
}
