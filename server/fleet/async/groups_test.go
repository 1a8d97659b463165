package async

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
	"github.com/headgate/headgate/server/fleet/internal/ledger"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// keysOf returns a key of a group, and one of another.
func keysOf(t testing.TB, l *ledger.Ledger, limit headgate.Limit, group int) (in, out string) {
	t.Helper()
	for i := 0; in == "" || out == ""; i++ {
		c := headgate.Check{Key: fmt.Sprint("key ", i), Limit: limit}
		key := l.ObservedKey(&c).Key
		if tally.GroupOf(&key) == group {
			in = c.Key
		} else {
			out = c.Key
		}
	}
	return in, out
}

func TestAsyncPoliciesApplyOnlyToKeysOfTheLostServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const dead = 7
		var events []fleet.Event
		s := fleettest.NewBoard(time.Millisecond)
		a := startAsync(t, 1, s, func(lo *fleet.LedgerOptions, o *Options) {
			lo.Members = &fleettest.Members{LiveNodes: 2, KnownNodes: 2}
			o.OnEvent = func(e fleet.Event) { events = append(events, e) }
		})[0]
		limit := headgate.PerHour(1000)
		lost, kept := keysOf(t, a.ledger, limit, dead)
		take := func(key string, policy headgate.Policy) headgate.Decision {
			t.Helper()
			d, err := a.Take(context.Background(), headgate.Check{Key: key, Limit: limit, Cost: 1, OnFailure: policy})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		take(lost, headgate.Open)
		take(kept, headgate.Open)
		talk()

		s.Lose(func(key string) bool { return key[0]%fleet.KeyGroups == dead })
		const patience = exchange.DefaultMaxMissed * DefaultInterval
		for start := time.Now(); time.Since(start) < patience*3/4; time.Sleep(10 * time.Millisecond) {
			if d := take(lost, headgate.Closed); !d.Allowed || d.Degraded {
				t.Fatalf("after %v: got %+v, want allowed, as that is no time", time.Since(start), d)
			}
			take(kept, headgate.Closed)
		}
		time.Sleep(patience / 2)
		if d := take(lost, headgate.Closed); d.Allowed || !d.Degraded || d.RetryAfter <= 0 {
			t.Errorf("closed: got %+v, want denied for a while, degraded", d)
		}
		if d := take(lost, headgate.Local); d.Limit != 500 || !d.Degraded {
			t.Errorf("local: got %+v, want a limit of 500, degraded", d)
		}
		if d := take(lost, headgate.Open); !d.Allowed || !d.Degraded {
			t.Errorf("open: got %+v, want allowed, degraded", d)
		}
		if d := take(kept, headgate.Closed); !d.Allowed || d.Degraded || d.Limit != 1000 {
			t.Errorf("a key of another server: got %+v, want allowed by the whole limit", d)
		}
		both := []headgate.Check{
			{Key: kept, Limit: limit, Cost: 1, OnFailure: headgate.Closed},
			{Key: lost, Limit: limit, Cost: 1, OnFailure: headgate.Closed},
		}
		if ds, err := a.TakeAll(context.Background(), both, nil); err != nil || ds[0].Degraded || ds[1].Allowed || !ds[1].Degraded {
			t.Errorf("both at once: got %+v, %v, want the second denied", ds, err)
		}
		if s := a.Stats(); s.Unreachable || s.UnreachableGroups != 1 {
			t.Errorf("away %v, %d groups cut; want one group and not all", s.Unreachable, s.UnreachableGroups)
		}

		// Nobody's check is counted meanwhile, and yet it is noticed that the server is back.
		time.Sleep(time.Minute)
		if d := take(lost, headgate.Closed); d.Allowed {
			t.Errorf("after a minute: got %+v, want denied", d)
		}
		s.Lose(nil)
		time.Sleep(2 * DefaultInterval)
		if d := take(lost, headgate.Closed); !d.Allowed || d.Degraded {
			t.Errorf("when it is back: got %+v, want allowed", d)
		}
		closeAsync(t, a)
		if len(events) != 2 || events[0].Kind != fleet.ExchangePartlyUnreachable || events[0].Err == nil || events[1].Kind != fleet.ExchangeFullyReachable || events[1].Down < time.Minute {
			t.Errorf("events: got %v, want a part that is away, and back after a minute", events)
		}
	})
}

// When all groups are unreachable, parts are not reported, and all groups recover at once.
func TestAsyncAnExchangeThatIsAwayAsAWholeIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kinds []fleet.EventKind
		s := fleettest.NewBoard(time.Millisecond)
		a := startAsync(t, 1, s, func(_ *fleet.LedgerOptions, o *Options) {
			o.OnEvent = func(e fleet.Event) { kinds = append(kinds, e.Kind) }
		})[0]
		limit := headgate.PerHour(1000)
		for i := range 100 {
			takeAsync(t, a, fmt.Sprint(i), limit, 1)
		}
		s.SetDown(true)
		time.Sleep(5 * time.Second)
		s.SetDown(false)
		time.Sleep(time.Second)
		for i := range 100 {
			d, err := a.Take(context.Background(), headgate.Check{Key: fmt.Sprint(i), Limit: limit, Cost: 1, OnFailure: headgate.Closed})
			if err != nil || !d.Allowed || d.Degraded {
				t.Fatalf("key %d: got %+v, %v, want allowed", i, d, err)
			}
		}
		closeAsync(t, a)
		if want := []fleet.EventKind{fleet.ExchangeUnreachable, fleet.ExchangeReachable}; !slices.Equal(kinds, want) {
			t.Errorf("events: got %v, want %v", kinds, want)
		}
	})
}

func TestAsyncDeadClusterServerAppliesThePoliciesOfItsKeys(t *testing.T) {
	t.Parallel()
	set := redistest.Cluster(t, redistest.ClusterOptions{
		Server: redistest.Options{Config: []string{"cluster-require-full-coverage no"}}, NodeTimeout: time.Minute, // no failover
	})
	a := onRedis(t, set.URL(), 1, nil)[0]
	limit := headgate.PerSecond(1_000_000) // so that no key is denied for its limit, however often it is requested
	const keys = 64
	ask := func(policy headgate.Policy) (degraded, denied int) {
		t.Helper()
		for i := range keys {
			d, err := a.Take(t.Context(), headgate.Check{Key: fmt.Sprint("key ", i), Limit: limit, Cost: 1, OnFailure: policy})
			if err != nil {
				t.Fatal(err)
			}
			if d.Degraded {
				degraded++
			}
			if !d.Allowed {
				denied++
			}
		}
		return degraded, denied
	}
	await.True(t, "all keys to be exchanged", func() bool {
		degraded, _ := ask(headgate.Closed)
		return degraded == 0 && a.Stats().Sent >= keys
	})
	dead := set.Servers()[1]
	dead.Kill()
	await.True(t, "the keys of the server that died to be denied", func() bool {
		ask(headgate.Open) // the others go on
		s := a.Stats()
		return s.UnreachableGroups > 0 && s.UnreachableGroups < fleet.KeyGroups && !s.Unreachable
	})
	await.True(t, "those keys and no others to be denied", func() bool {
		degraded, denied := ask(headgate.Closed)
		return degraded > 0 && degraded == denied && degraded < keys*2/3
	})
	dead.Restart()
	await.True(t, "all keys to be served again", func() bool {
		degraded, denied := ask(headgate.Closed)
		return degraded == 0 && denied == 0
	})
}
