package engine_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
)

func release(t testing.TB, e *engine.Engine, lease string) {
	t.Helper()
	if err := e.Release(context.Background(), lease); err != nil {
		t.Errorf("release %s: %v", lease, err)
	}
}

func TestLeaseGivesBackPlacesAndNothingElse(t *testing.T) {
	onEveryStore(t, []rules.Rule{
		{ID: "a", Key: by(user), Limits: limits("2 concurrent", "10/h")},
		{ID: "b", Limits: limits("5 concurrent ttl 10s"), Consistency: rules.Local},
		{ID: "c", Key: by(user), Limits: limits("7 concurrent"), Cost: rules.Cost{Units: 3}, OnLimit: inShadow},
	}, func(t *testing.T, b *bench) {
		var leases []string
		for range 2 {
			lease := string(b.ask(alice()).AppendLease([]byte("id=")))
			text, ok := strings.CutPrefix(lease, "id=")
			if !ok || text == "" || strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
				t.Fatalf("got %q", lease)
			}
			leases = append(leases, text)
		}
		denied := b.ask(alice())
		if said(denied) != "reject (over limit) by a" {
			t.Fatalf("got %s", said(denied))
		}
		if lease := denied.AppendLease([]byte("x")); string(lease) != "x" {
			t.Errorf("a denial: got %s", lease)
		}
		check := func(when string, a, b1, c int64) {
			t.Helper()
			left := remaining(t, b.Engine, alice())
			if left["a:1"] != a || left["b:1"] != b1 || left["c:1"] != c || left["a:2"] != 8 {
				t.Errorf("%s: got %v, want %d, %d and %d places, and 8 an hour", when, left, a, b1, c)
			}
		}
		check("held", 0, 3, 1)
		release(t, b.Engine, leases[1])
		check("one released", 1, 4, 4)
		release(t, b.Engine, leases[1])
		check("released twice", 1, 4, 4)
		b.Advance(11 * time.Second)
		check("after the TTL of one", 1, 5, 4)
		release(t, b.Engine, leases[0])
		check("all released", 2, 5, 7)
	})
}

// A lease is of use after its verdict was used again, and after rules have changed.
func TestLeaseOutlivesVerdictAndRules(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("2 concurrent")})
	v := b.ask(alice())
	lease := string(v.AppendLease(nil))
	if err := b.Decide(context.Background(), rules.Attributes{user: "bob"}, v); err != nil {
		t.Fatal(err)
	}
	if err := b.SetRules(compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("1 concurrent")}})); err != nil {
		t.Fatal(err)
	}
	if v := b.ask(alice()); v.Action != engine.Reject {
		t.Fatalf("got %s, want the place taken", said(v))
	}
	release(t, b.Engine, lease)
	if v := b.ask(alice()); v.Action != engine.Allow {
		t.Errorf("got %s, want the place free", said(v))
	}
}

func TestVerdictWithoutPlacesHasNoLease(t *testing.T) {
	b := newBench(t, rules.Rule{ID: "a", Key: by(user), Limits: limits("2/h")})
	if lease := b.ask(alice()).AppendLease(nil); lease != nil {
		t.Errorf("got %s", lease)
	}
	var none engine.Verdict
	if lease := none.AppendLease(nil); lease != nil {
		t.Errorf("the zero verdict: got %s", lease)
	}
}

// Who hands a lease out does not wait here.
func TestLeaseThatIsHandedOutDoesNotWait(t *testing.T) {
	b := newBench(t,
		rules.Rule{ID: "a", Key: by(user), Limits: limits("1/s burst 1"), OnLimit: delayed(time.Minute)},
		rules.Rule{ID: "b", Key: by(user), Limits: limits("9 concurrent")})
	b.ask(alice())
	v := b.ask(alice())
	if v.Action != engine.Delay || b.Waiting() != 1 {
		t.Fatalf("got %s, %d wait", said(v), b.Waiting())
	}
	if lease := v.AppendLease(nil); lease == nil || b.Waiting() != 0 {
		t.Errorf("got %q, %d wait", lease, b.Waiting())
	}
}

func TestWhatIsNoLeaseIsRefused(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) { refusesWhatIsNoLease(t, shared) })
	}
}

func refusesWhatIsNoLease(t *testing.T, shared bool) {
	t.Helper()
	b := newBenchWith(t, engine.Config{Shared: shared}, rules.Rule{ID: "a", Key: by(user), Limits: limits("2 concurrent")})
	good := string(b.ask(alice()).AppendLease(nil))
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	bad := []string{"", "x", "lease", "=", good + "A", good[1:], " " + good, strings.Repeat("A", 100_000), strings.ToUpper(good)}
	for n := range len(good) {
		bad = append(bad, good[:n])
	}
	for i := range raw {
		changed := []byte(string(raw))
		changed[i] ^= 0x40
		bad = append(bad, base64.RawURLEncoding.EncodeToString(changed))
	}
	for _, lease := range bad {
		if err := b.Release(context.Background(), lease); !errors.Is(err, engine.ErrLease) {
			t.Errorf("%.100q: got %v, want ErrLease", lease, err)
		}
	}
	if left := remaining(t, b.Engine, alice()); left["a:1"] != 1 {
		t.Errorf("got %v, want 1: the place is still held", left)
	}
	if err := b.Release(nil, good); !errors.Is(err, headgate.ErrNilContext) { //nolint:staticcheck // that is what is tested
		t.Errorf("got %v", err)
	}
}

// Only an engine with the secret can read or forge a lease.
func TestLeasesAreSealed(t *testing.T) {
	secret, other := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	store := newStore(t, memstore.Options{})
	set := compile(t, []rules.Rule{{ID: "places", Key: by(user), Limits: limits("9 concurrent")}})
	one := func(c engine.Config) *engine.Engine {
		c.Store, c.Rules = store, set
		return newEngine(t, c)
	}
	a, again := one(engine.Config{Secret: secret, Shared: true}), one(engine.Config{Secret: secret})
	otherSecret, open, alone := one(engine.Config{Secret: other}), one(engine.Config{Shared: true}), one(engine.Config{})
	readable := func(lease string) bool {
		raw, err := base64.RawURLEncoding.DecodeString(lease)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(raw), "alice") || strings.Contains(string(raw), "places")
	}
	lease := func(e *engine.Engine) string { return string(decide(t, e, alice()).AppendLease(nil)) }
	for _, tt := range []struct {
		name     string
		from, to *engine.Engine
		readable bool
		ok       bool
	}{
		{"the same secret", a, again, false, true},
		{"another secret", a, otherSecret, false, false},
		{"a secret that the releaser lacks", a, open, false, false},
		{"a secret that the maker lacks", open, a, true, false},
		{"no secret on hosts that share", open, one(engine.Config{Shared: true}), true, true},
		{"no secret on a host of its own", alone, alone, false, true},
		{"no secret on two hosts of their own", alone, one(engine.Config{}), false, false},
	} {
		text := lease(tt.from)
		if got := readable(text); got != tt.readable {
			t.Errorf("%s: readable %v, want %v", tt.name, got, tt.readable)
		}
		err := tt.to.Release(context.Background(), text)
		if ok := err == nil; ok != tt.ok || !ok && !errors.Is(err, engine.ErrLease) {
			t.Errorf("%s: got %v, want it released %v", tt.name, err, tt.ok)
		}
		if !tt.ok {
			release(t, tt.from, text)
		}
	}
	if left := remaining(t, a, alice()); left["places:1"] != 9 {
		t.Errorf("got %v, want all places back", left)
	}
	if first, second := lease(a), lease(a); first == second {
		t.Error("two leases are the same")
	}
	if _, err := engine.New(engine.Config{Store: store, Secret: []byte("short")}); err == nil || !strings.Contains(err.Error(), "at least 16") {
		t.Errorf("a short secret: got %v", err)
	}
}

func TestReleaseSaysWhatCouldNotBeGivenBack(t *testing.T) {
	clock := newBench(t)
	_, _, exact, _ := stores(t, clock)
	e := newEngine(t, engine.Config{Store: exact, Rules: compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("2 concurrent")}})})
	lease := string(decide(t, e, alice()).AppendLease(nil))
	exact.breaks(errBroken)
	if err := e.Release(context.Background(), lease); !errors.Is(err, errBroken) || errors.Is(err, engine.ErrLease) {
		t.Errorf("got %v", err)
	}
	exact.breaks(nil)
	ctx, end := context.WithCancel(context.Background())
	end()
	if err := e.Release(ctx, lease); err != nil {
		t.Errorf("the client has hung up: got %v", err)
	}
	if left := remaining(t, e, alice()); left["a:1"] != 2 {
		t.Errorf("got %v, want 2", left)
	}
}

func TestRenewHoldsTheSlotsOfALease(t *testing.T) {
	onEveryStore(t, []rules.Rule{
		{ID: "a", Key: by(user), Limits: limits("1 concurrent ttl 10s", "10/h")},
		{ID: "b", Limits: limits("5 concurrent ttl 20s"), Consistency: rules.Local},
	}, func(t *testing.T, b *bench) {
		lease := string(decide(t, b.Engine, alice()).AppendLease(nil))
		for range 3 {
			b.Advance(9 * time.Second)
			held, ttl, err := b.Renew(context.Background(), lease)
			if !held || ttl != 10*time.Second || err != nil {
				t.Fatalf("got %v, %v, %v; want it held for 10s", held, ttl, err)
			}
		}
		if left := remaining(t, b.Engine, alice()); left["a:1"] != 0 || left["b:1"] != 4 {
			t.Errorf("got %v, want both slots held", left)
		}
		b.Advance(11 * time.Second)
		other := string(decide(t, b.Engine, alice()).AppendLease(nil))
		if held, _, err := b.Renew(context.Background(), lease); held || err != nil {
			t.Errorf("after it expired: got %v, %v; want it lost to another request", held, err)
		}
		release(t, b.Engine, other)
		if held, _, err := b.Renew(context.Background(), lease); !held || err != nil {
			t.Errorf("with room again: got %v, %v; want it held", held, err)
		}
		if _, _, err := b.Renew(context.Background(), lease[1:]); !errors.Is(err, engine.ErrLease) {
			t.Errorf("no lease: got %v, want ErrLease", err)
		}
	})
}

func TestRenewReportsAStoreThatFails(t *testing.T) {
	_, _, exact, _ := stores(t, newBench(t))
	e := newEngine(t, engine.Config{Store: exact, Rules: compile(t, []rules.Rule{{ID: "a", Key: by(user), Limits: limits("2 concurrent")}})})
	lease := string(decide(t, e, alice()).AppendLease(nil))
	exact.breaks(errBroken)
	if held, _, err := e.Renew(context.Background(), lease); held || !errors.Is(err, errBroken) || errors.Is(err, engine.ErrLease) {
		t.Errorf("got %v, %v; want the store's error", held, err)
	}
}

// Whatever a lease says, it is read without a crash, and gives nobody a place whose lease is not known.
func FuzzRelease(f *testing.F) {
	store, err := memstore.New(memstore.Options{})
	if err != nil {
		f.Fatal(err)
	}
	closing(f, store)
	e := newEngine(f, engine.Config{Store: store, Shared: true, Rules: compile(f, []rules.Rule{
		{ID: "a", Key: by(user), Limits: limits("2 concurrent ttl 1h")},
		{ID: "b", Limits: limits("9 concurrent ttl 1h", "50000/s"), Cost: rules.Cost{Units: 3}},
	})})
	f.Add("")
	f.Add("AQ")
	f.Add("AQAAAAA")
	lease := string(decide(f, e, rules.Attributes{user: "bob"}).AppendLease(nil))
	release(f, e, lease) // so that it is known no more
	f.Add(lease)
	f.Add(lease[:len(lease)/2])
	f.Add(lease + lease)
	decide(f, e, alice())
	want := remaining(f, e, alice())
	f.Fuzz(func(t *testing.T, lease string) {
		err := e.Release(context.Background(), lease)
		if err != nil && !errors.Is(err, engine.ErrLease) {
			t.Fatalf("got %v", err)
		}
		if got := remaining(t, e, alice()); got["a:1"] != want["a:1"] || got["b:1"] != want["b:1"] {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}
