package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

var aPenalty = &rules.Penalty{
	After: rules.Denials{Count: 3, Within: time.Minute}, Limits: limits("1/10s"), For: 5 * time.Minute,
}

// strict is aPenalty with a limit that is lower than any other here.
func strict() *rules.Penalty {
	p := *aPenalty
	p.Limits = limits("1/7d")
	return &p
}

func TestPenaltyBeginsAndEnds(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("2/s"), Penalty: aPenalty})
	if got := b.passes(alice()); got != 2 { // and one denial
		t.Fatalf("%d passed, want 2", got)
	}
	b.ask(alice()) // the second
	b.Advance(time.Second)
	if got := b.passes(alice()); got != 2 { // the third
		t.Fatalf("%d passed after two denials, want the usual 2", got)
	}
	b.Advance(time.Second)
	v := b.ask(alice())
	if v.Action != engine.Allow || !v.Outcomes()[0].Penalized || v.Limits()[1].Name != "~1" || v.Decision.Limit != 1 {
		t.Errorf("after three denials: got %s, %+v, want the penalty's limit too", said(v), v.Limits())
	}
	if v = b.ask(alice()); said(v) != "reject (over limit) by a" || v.RetryAfter != 10*time.Second {
		t.Errorf("got %s, retry after %v, want a denial for 10s", said(v), v.RetryAfter)
	}
	if v := b.ask(rules.Attributes{user: "bob"}); v.Outcomes()[0].Penalized {
		t.Error("another client is penalized")
	}
	b.Advance(5*time.Minute - time.Second - time.Microsecond)
	if v := b.ask(alice()); !v.Outcomes()[0].Penalized {
		t.Error("the penalty has ended a microsecond too early")
	}
	b.Advance(time.Microsecond)
	if v := b.ask(alice()); v.Outcomes()[0].Penalized || v.Decision.Limit != 2 {
		t.Errorf("after the penalty: got %s, %+v", said(v), v.Decision)
	}
}

// Limits that a penalty lists apply besides the client's own, whatever these are: the rule's, an override's, a
// registered client's. Whatever the penalty says, the client does not get more than without it.
func TestPenaltyNeverAllowsMore(t *testing.T) {
	for _, penalty := range []string{"10/s", "1/s", "999/s", "29/d fixed-window", "1000/d", "5 concurrent"} {
		b := newBench(t, rules.Rule{
			ID: "a", Key: by(user), Limits: limits("20/s", "30/d fixed-window"),
			Overrides: []rules.Override{{When: is(user, "trial"), Limits: limits("2/d fixed-window")}},
			Penalty:   &rules.Penalty{After: rules.Denials{Count: 3, Within: time.Hour}, Limits: limits(penalty), For: time.Hour},
		})
		b.Advance(24*time.Hour - b.Now().Sub(b.Now().Truncate(24*time.Hour))) // to the beginning of a day
		if err := b.AddClient(rules.Client{ID: "acme", Limits: limits("4/d fixed-window")}); err != nil {
			t.Fatal(err)
		}
		for who, want := range map[string]int{"alice": 30, "trial": 2, "acme": 4} {
			passed := 0
			for range 100 {
				b.Advance(100 * time.Millisecond)
				v := b.ask(rules.Attributes{user: who})
				if v.Action.Passes() {
					passed++
					if err := v.Settle(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			if passed > want {
				t.Errorf("penalty %s: %s passed %d times, want at most %d", penalty, who, passed, want)
			}
			if v := b.ask(rules.Attributes{user: who}); !v.Outcomes()[0].Penalized {
				t.Errorf("penalty %s: %s is not penalized, so that this shows nothing", penalty, who)
			}
		}
	}
}

// Who goes on while it lasts is punished again when it ends; who stops is not.
func TestPenaltyGoesOnForWhoGoesOn(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("2/s"), Penalty: aPenalty})
	for range 5 {
		b.ask(alice())
	}
	for range 300 { // one a second, most of which are denied
		b.Advance(time.Second)
		b.ask(alice())
	}
	b.ask(alice())
	b.ask(alice())
	b.ask(alice())
	if v := b.ask(alice()); !v.Outcomes()[0].Penalized {
		t.Error("not punished again")
	}
}

func TestDenialsFarApartAreNotPunished(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("1/m"), Penalty: strict()})
	b.ask(alice())
	for range 20 { // a denial every 30 s, and two in any minute
		b.Advance(30 * time.Second)
		b.ask(alice())
		if v := b.ask(alice()); v.Outcomes()[0].Penalized {
			t.Fatal("punished for two denials in a minute")
		}
		b.Advance(30 * time.Second)
	}
}

func TestManyDenialsAreCountedToo(t *testing.T) {
	many := *aPenalty
	many.After.Count = 1000
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("2/h"), Penalty: &many})
	for i := range 1002 {
		if v := b.ask(alice()); v.Outcomes()[0].Penalized {
			t.Fatalf("punished after %d denials, want 1000", i-2)
		}
	}
	if v := b.ask(alice()); !v.Outcomes()[0].Penalized {
		t.Error("not punished after 1000 denials")
	}
}

func TestOnlyTheRuleThatDeniesCountsADenial(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "punishes", Key: by(user), Limits: limits("100/h"), Penalty: aPenalty},
		rules.Rule{ID: "denies", Key: by(ip), Limits: limits("1/h")},
		rules.Rule{ID: "blocks", When: is(path, "/admin"), Block: true},
	)
	blocked := alice()
	blocked[path] = "/admin"
	for range 10 {
		b.ask(alice())
		b.ask(blocked)
	}
	for _, o := range b.ask(alice()).Outcomes() {
		if o.Penalized {
			t.Errorf("%s punishes for what it did not deny", o.Rule.ID)
		}
	}
}

func TestPenaltyOfAStoreThatIsShared(t *testing.T) {
	b := newBench(t)
	local, _, exact, _ := stores(t, b)
	var errs []error
	e := newEngine(t, engine.Config{
		Store: exact, Local: local, Shared: true, OnError: func(err error) { errs = append(errs, err) },
		Rules: compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("1/h"), Penalty: strict()}}),
	})
	for range 4 {
		decide(t, e, alice())
	}
	if v := decide(t, e, alice()); !v.Outcomes()[0].Penalized || v.Outcomes()[0].Mode != rules.Exact {
		t.Errorf("got %+v, want the penalty's limits in the store", v.Outcomes()[0])
	}
	// Without denials to count, the rule stands as it is.
	local.breaks(errBroken)
	if v := decide(t, e, alice()); v.Outcomes()[0].Penalized || v.Degraded || v.Action != engine.Reject {
		t.Errorf("got %s", said(v))
	}
	if len(errs) != 2 || !errors.Is(errs[0], errBroken) { // one for the mark, one for the denial
		t.Errorf("got %v", errs)
	}
}

func TestRejectedRequestsCount(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "login", Key: by(user), Limits: limits("2/m", "100/h"), CountRejected: true})
	b.ask(alice())
	b.ask(alice())
	// The bucket is empty, and a unit comes back in 30 s. Each denial takes one more.
	for i, want := range []int{60, 90, 120} {
		v := b.ask(alice())
		if said(v) != "reject (over limit) by login" || v.RetryAfter != seconds(want) {
			t.Errorf("denial %d: got %s, retry after %v, want %ds", i, said(v), v.RetryAfter, want)
		}
	}
	if left := remaining(t, b.Engine, alice()); left["login:1"] != -3 || left["login:2"] != 95 {
		t.Errorf("got %v, want a debt of 3 and 95 of 100", left)
	}
	b.Advance(120*time.Second - time.Microsecond)
	if v := b.ask(alice()); v.Action != engine.Reject || v.RetryAfter != 30*time.Second+time.Microsecond {
		t.Errorf("a microsecond early: got %s, retry after %v", said(v), v.RetryAfter)
	}
	b.Advance(30*time.Second + time.Microsecond)
	if v := b.ask(alice()); v.Action != engine.Allow {
		t.Errorf("got %s, want it to pass after RetryAfter", said(v))
	}
	// The debt is bounded.
	for range 100 {
		b.ask(alice())
	}
	if v := b.ask(alice()); v.RetryAfter > (headgate.MaxDebt*2+1)*30*time.Second {
		t.Errorf("after 100 denials: retry after %v", v.RetryAfter)
	}
}

// Windows say when they let pass, too, with what was denied counted.
func TestRejectedRequestsCountInWindows(t *testing.T) {
	for _, limit := range []string{"2/m fixed-window", "2/m sliding-window", "2/m sliding-log", "2/m sliding-buckets", "2/m gcra"} {
		b := newBench(t, rules.Rule{ID: "login", Key: by(user), Limits: limits(limit), CountRejected: true})
		for range 4 {
			b.ask(alice())
		}
		v := b.ask(alice())
		if v.Action != engine.Reject {
			t.Errorf("%s: got %s", limit, said(v))
			continue
		}
		b.Advance(v.RetryAfter)
		if v := b.ask(alice()); v.Action != engine.Allow {
			t.Errorf("%s: after RetryAfter: got %s", limit, said(v))
		}
	}
}

// What another rule denies is not this one's.
func TestOnlyWhatTheRuleDeniesItselfCounts(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "own", Key: by(user), Limits: limits("1/h")},
		rules.Rule{ID: "all", Limits: limits("100/h"), CountRejected: true},
	)
	for range 10 {
		b.ask(alice())
	}
	if left := remaining(t, b.Engine, alice()); left["all:1"] != 99 {
		t.Errorf("%d left for all after one client was denied by its own limit, want 99", left["all:1"])
	}
}

// A rule without a penalty costs no look, and one with a penalty costs one.
func TestPenaltiesCostOneLook(t *testing.T) {
	log := new([]string)
	b := newBench(t)
	store := &recorder{Limiter: newStore(t, memstore.Options{Now: b.Now}), name: "s", log: log}
	e := newEngine(t, engine.Config{Store: store, Rules: compile(t, []rules.Rule{
		{ID: "a", Key: by(user), Limits: limits("9/h"), Penalty: aPenalty}, {ID: "b", Key: by(user), Limits: limits("9/h")},
	})})
	decide(t, e, alice())
	if len(*log) != 2 {
		t.Errorf("got %v, want a look and a take", *log)
	}
}
