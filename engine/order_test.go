package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

// stores returns three limiters in memory that write down what they are asked in one log.
func stores(t testing.TB, now *bench) (local, lease, exact *recorder, log *[]string) {
	t.Helper()
	log = new([]string)
	list := make([]*recorder, 3)
	for i, name := range []string{"local", "lease", "exact"} {
		list[i] = &recorder{Limiter: newStore(t, memstore.Options{Now: now.Now}), name: name, log: log}
	}
	return list[0], list[1], list[2], log
}

// everyMode are rules of several modes and owners, in an order that is not the one they are asked in.
func everyMode() []rules.Rule {
	return []rules.Rule{
		{ID: "all", Limits: limits("5/h")},
		{ID: "tenant", Key: by(tenant), Limits: limits("9/h")},
		{ID: "own", Key: by(user), Limits: limits("3/h", "30/d")},
		{ID: "hot", Limits: limits("100/h"), Consistency: rules.Lease},
		{ID: "here", Key: by(ip), Limits: limits("4/h"), Consistency: rules.Local},
		{ID: "here-all", Limits: limits("50/h"), Consistency: rules.Local},
		{ID: "address", Key: by(ip), Limits: limits("8/h"), Consistency: rules.Exact},
	}
}

func TestStoresAreAskedInOrder(t *testing.T) {
	b := newBench(t)
	local, lease, exact, log := stores(t, b)
	e := newEngine(t, engine.Config{
		Store: exact, Local: local, Shared: true, Rules: compile(t, everyMode()),
		Modes: map[rules.Consistency]headgate.Limiter{rules.Lease: lease},
	})
	request := rules.Attributes{user: "alice", ip: "192.0.2.1", tenant: "acme"}
	v := decide(t, e, request)
	if v.Action != engine.Allow {
		t.Fatalf("got %s", said(v))
	}
	want := []string{
		"local takeall here:1 here-all:1", "lease takeall hot:1",
		"exact takeall own:1 own:2 address:1 all:1 tenant:1",
	}
	if !slices.Equal(*log, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(*log, "\n"), strings.Join(want, "\n"))
	}
	modes := map[string]rules.Consistency{}
	for _, o := range v.Outcomes() {
		modes[o.Rule.ID] = o.Mode
	}
	if modes["all"] != rules.Exact || modes["hot"] != rules.Lease || modes["here"] != rules.Local {
		t.Errorf("got modes %v", modes)
	}
}

// What was taken before is given back when a later one denies, and nobody behind it is asked.
func TestWhatWasTakenIsGivenBackWhenALaterStoreDenies(t *testing.T) {
	b := newBench(t)
	local, lease, exact, log := stores(t, b)
	e := newEngine(t, engine.Config{
		Store: exact, Local: local, Shared: true, Rules: compile(t, everyMode()),
		Modes: map[rules.Consistency]headgate.Limiter{rules.Lease: lease},
	})
	request := rules.Attributes{user: "alice", ip: "192.0.2.1", tenant: "acme"}
	for range 3 {
		decide(t, e, request)
	}
	before := remaining(t, e, request)
	*log = nil
	v := decide(t, e, request)
	if got := said(v); got != "reject (over limit) by own" {
		t.Errorf("got %s", got)
	}
	want := []string{
		"local takeall here:1 here-all:1", "lease takeall hot:1",
		"exact takeall own:1 own:2 address:1 all:1 tenant:1",
		"local give here:1", "local give here-all:1", "lease give hot:1",
	}
	if !slices.Equal(*log, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(*log, "\n"), strings.Join(want, "\n"))
	}
	if after := remaining(t, e, request); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("after a denial: got %v, want %v", after, before)
	}
	for _, l := range v.Limits() {
		if l.Rule.ID == "here" && (l.Decision.Remaining != 1 || l.Decision.Receipt.Units != 0) {
			t.Errorf("a limit that was given back says %+v", l.Decision)
		}
	}

	// A local limit that denies leaves the others alone.
	another := rules.Attributes{user: "bob", ip: "192.0.2.1", tenant: "acme"}
	decide(t, e, another)
	*log = nil
	if v = decide(t, e, another); said(v) != "reject (over limit) by here" {
		t.Errorf("got %s", said(v))
	}
	if want := []string{"local takeall here:1 here-all:1"}; !slices.Equal(*log, want) {
		t.Errorf("got %v, want %v", *log, want)
	}
	for _, o := range v.Outcomes() {
		if o.Checked != (o.Mode == rules.Local) || o.Denied != (o.Rule.ID == "here") {
			t.Errorf("%s: got %+v", o.Rule.ID, o)
		}
	}
}

func TestOneStoreIsAskedOnce(t *testing.T) {
	b := newBench(t)
	_, _, exact, log := stores(t, b)
	list := everyMode()
	list[3].Consistency = rules.Exact
	e := newEngine(t, engine.Config{Store: exact, Rules: compile(t, list)})
	decide(t, e, rules.Attributes{user: "alice", ip: "192.0.2.1", tenant: "acme"})
	if want := []string{"exact takeall own:1 own:2 here:1 address:1 all:1 tenant:1 hot:1 here-all:1"}; !slices.Equal(*log, want) {
		t.Errorf("got %v, want %v", *log, want)
	}
}

// Owners and keys are those of the rules, and the policies of the rule go with the check.
func TestChecksSayWhatServersNeed(t *testing.T) {
	var got []headgate.Check
	asks := limiterFunc(func(checks []headgate.Check) { got = append(got, checks...) })
	safe := headgate.PerSecond(7)
	e := newEngine(t, engine.Config{Store: asks, Shared: true, Rules: compile(t, []rules.Rule{
		{ID: "own", Key: by(user, path), Limits: limits("1000/h"), OnFailure: headgate.Local, Safe: &safe, Split: 4},
		{ID: "all", Limits: limits("1000/h"), OnFailure: headgate.Closed},
	})})
	set := e.Rules()
	decide(t, e, alice())
	for i, m := range set.Match(alice(), nil) {
		c := got[i]
		if want := string(m.AppendKey(nil, alice(), 0)); c.Key != want {
			t.Errorf("%s: got key %q, want %q", m.Rule.ID, c.Key, want)
		}
		if want := string(m.AppendOwner(nil, alice())); c.Owner != want {
			t.Errorf("%s: got owner %q, want %q", m.Rule.ID, c.Owner, want)
		}
		if c.Split != m.Rule.Split || c.OnFailure != m.Rule.OnFailure || c.Safe != m.Rule.Safe || c.Cost != 1 {
			t.Errorf("%s: got %+v", m.Rule.ID, c)
		}
	}
	// A store that may keep keys gets strings that stay as they are.
	kept := got[0].Key
	want := strings.Clone(kept)
	decide(t, e, rules.Attributes{user: "somebody-else", ip: "192.0.2.7", path: "/other"})
	if kept != want {
		t.Errorf("a key that the store has kept became %q, want %q", kept, want)
	}
}

// limiterFunc is a limiter that allows everything, and shows what it is asked.
type limiterFunc func([]headgate.Check)

func (f limiterFunc) Take(_ context.Context, c headgate.Check) (headgate.Decision, error) {
	f([]headgate.Check{c})
	return headgate.Decision{Allowed: true, Limit: c.Limit.Capacity(), Remaining: c.Limit.Capacity() - c.Cost}, nil
}

func (f limiterFunc) Peek(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return f.Take(ctx, c)
}

func (f limiterFunc) Renew(context.Context, headgate.Check, headgate.Receipt) (bool, error) {
	return false, headgate.ErrUnsupported
}

func (f limiterFunc) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	for _, c := range checks {
		d, _ := f.Take(ctx, c)
		dst = append(dst, d)
	}
	return dst, nil
}

func (f limiterFunc) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	return f.Take(ctx, c)
}
func (limiterFunc) Give(context.Context, headgate.Check, headgate.Receipt) error { return nil }
func (limiterFunc) Reset(context.Context, headgate.Check) error                  { return nil }

// More limits than one call takes are asked in several, as one.
func TestMoreLimitsThanOneCallTakes(t *testing.T) {
	var list []rules.Rule
	for i := range 40 { // of 8 limits each
		r := rules.Rule{ID: fmt.Sprint("r", i), Key: by(user)}
		for j := range rules.MaxLimits {
			r.Limits = append(r.Limits, rules.Limit{Name: fmt.Sprint("l", j), Limit: headgate.PerHour(5)})
		}
		list = append(list, r)
	}
	list[39].Limits[7].Limit = headgate.PerHour(3) // the last of 320
	b := newBench(t, list...)
	for range 3 {
		if v := b.ask(alice()); v.Action != engine.Allow || len(v.Limits()) != 320 {
			t.Fatalf("got %s, %d limits", said(v), len(v.Limits()))
		}
	}
	v := b.ask(alice())
	if got := said(v); got != "reject (over limit) by r39" {
		t.Errorf("got %s", got)
	}
	for name, left := range remaining(t, b.Engine, alice()) {
		want := int64(2)
		if name == "r39:l7" {
			want = 0
		}
		if left != want {
			t.Errorf("%s: %d left, want %d", name, left, want)
		}
	}
}

// When a store cannot give back, somebody hears of it.
func TestGivingBackThatFailsIsReported(t *testing.T) {
	b := newBench(t)
	local, _, exact, _ := stores(t, b)
	stubborn := &giveless{Limiter: local}
	var errs []error
	e := newEngine(t, engine.Config{
		Store: exact, Local: stubborn, Shared: true, OnError: func(err error) { errs = append(errs, err) },
		Rules: compile(t, []rules.Rule{
			{ID: "here", Key: by(user), Limits: limits("9/h"), Consistency: rules.Local},
			{ID: "own", Key: by(user), Limits: limits("1/h")},
		}),
	})
	decide(t, e, alice())
	if v := decide(t, e, alice()); said(v) != "reject (over limit) by own" {
		t.Errorf("got %s", said(v))
	}
	if len(errs) != 1 || !errors.Is(errs[0], errBroken) || !strings.Contains(errs[0].Error(), "here") {
		t.Errorf("got %v, want the rule and %v", errs, errBroken)
	}
}

// giveless is a limiter that gives nothing back.
type giveless struct{ headgate.Limiter }

func (*giveless) Give(context.Context, headgate.Check, headgate.Receipt) error { return errBroken }
