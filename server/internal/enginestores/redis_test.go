package enginestores

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/rules"
)

// A fleet is engines on several hosts that share one Redis, wired as the command does it.
type fleet struct {
	*limittest.Clock
	server *redistest.Server
	hosts  []*engine.Engine
}

func newFleet(t *testing.T, list ...rules.Rule) *fleet {
	t.Helper()
	f := &fleet{Clock: limittest.NewClock(), server: redistest.Standalone(t, redistest.Options{})}
	set := compile(t, list)
	for range 2 {
		store, err := redisstore.Open(context.Background(), f.server.URL(), redisstore.Options{Now: f.Now, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, store)
		local := newStore(t, memstore.Options{Now: f.Now})
		g, err := guard.New(store, guard.Options{
			Deadline: 10 * time.Second, DenyCache: -1, Local: local, OnEvent: func(guard.Event) {},
		})
		if err != nil {
			t.Fatal(err)
		}
		closing(t, g)
		f.hosts = append(f.hosts, newEngine(t, engine.Config{Store: g, Local: local, Shared: true, Rules: set}))
	}
	return f
}

func TestHostsShareLimitsInRedis(t *testing.T) {
	f := newFleet(t,
		rules.Rule{ID: "exports", When: is(path, "/exports"), Key: by(user), Limits: limits("10/s burst 2"), OnLimit: delayed(500 * time.Millisecond)},
		rules.Rule{ID: "own", When: is(path, "/search"), Key: by(user), Limits: limits("3/h", "1000/d sliding-window")},
		rules.Rule{ID: "tenant", When: is(path, "/search"), Key: by(tenant), Limits: limits("10/h")},
		rules.Rule{ID: "watched", When: is(path, "/search"), Key: by(user), Limits: limits("2/h"), OnLimit: inShadow},
		rules.Rule{ID: "places", When: is(path, "/stream"), Key: by(user), Limits: limits("2 concurrent ttl 1h")},
		rules.Rule{
			ID: "tokens", When: is(path, "/tokens"), Key: by(user), Limits: limits("100/m"),
			Cost: rules.Cost{ResponseHeader: "X-Used", Estimate: 10},
		},
		rules.Rule{ID: "login", When: is(path, "/login"), Key: by(user), Limits: limits("2/m"), CountRejected: true},
	)
	request := func(where string) rules.Attributes {
		return rules.Attributes{user: "alice", ip: "192.0.2.1", tenant: "acme", path: where}
	}
	host := func(i int) *engine.Engine { return f.hosts[i%2] }

	t.Run("wait in one line", func(t *testing.T) {
		var list []*engine.Verdict
		for i, want := range []int{0, 0, 100, 200, 300, 400, 500, -1} {
			v := decide(t, host(i), request("/exports"))
			if want < 0 {
				if said(v) != "reject (over limit) by exports" || v.RetryAfter != 100*time.Millisecond {
					t.Errorf("request %d: got %s, retry after %v", i, said(v), v.RetryAfter)
				}
				continue
			}
			if v.Delay != millis(want) || v.Degraded {
				t.Errorf("request %d: held for %v, want %v; degraded %v", i, v.Delay, millis(want), v.Degraded)
			}
			list = append(list, v)
		}
		f.Advance(50 * time.Millisecond)
		for _, v := range list[2:] {
			cancel(t, v)
		}
		// Two have passed, and half a unit has drained.
		if v := decide(t, host(0), request("/exports")); v.Delay != 50*time.Millisecond {
			t.Errorf("after all who waited have gone: held for %v, want 50ms", v.Delay)
		}
	})
	t.Run("drain nothing that is shared", func(t *testing.T) {
		for i := range 8 {
			v := decide(t, host(i), request("/search"))
			want := "allow by own"
			if i >= 3 {
				want = "reject (over limit) by own"
			}
			if said(v) != want {
				t.Errorf("request %d: got %s, want %s", i, said(v), want)
			}
			if o := v.Outcomes()[2]; o.Denied != (i >= 2) || !o.Shadow {
				t.Errorf("request %d: the shadow says %+v", i, o)
			}
		}
		if left := remaining(t, host(0), request("/search")); left["tenant:1"] != 7 || left["own:2"] != 997 {
			t.Errorf("got %v, want 7 for the tenant and 997 a day", left)
		}
	})
	t.Run("share places", func(t *testing.T) {
		first, second := decide(t, host(0), request("/stream")), decide(t, host(1), request("/stream"))
		if v := decide(t, host(0), request("/stream")); v.Action != engine.Reject {
			t.Errorf("a third: got %s", said(v))
		}
		settle(t, first, nil)
		settle(t, second, nil)
		if left := remaining(t, host(0), request("/stream")); left["places:1"] != 2 {
			t.Errorf("got %v, want both places back", left)
		}
	})
	t.Run("release each other's leases", func(t *testing.T) {
		var leases []string
		for i := range 2 {
			leases = append(leases, string(decide(t, host(i), request("/stream")).AppendLease(nil)))
		}
		if v := decide(t, host(0), request("/stream")); v.Action != engine.Reject {
			t.Errorf("a third: got %s", said(v))
		}
		for i, lease := range leases {
			release(t, host(i+1), lease)
		}
		if left := remaining(t, host(0), request("/stream")); left["places:1"] != 2 {
			t.Errorf("got %v, want both places back", left)
		}
	})
	t.Run("reset each other's counters", func(t *testing.T) {
		for i := range 3 {
			if v := decide(t, host(i), rules.Attributes{user: "carol", path: "/login"}); v.Action.Passes() != (i < 2) {
				t.Errorf("request %d: got %s", i, said(v))
			}
		}
		if err := host(1).Reset(context.Background(), "login", rules.Attributes{user: "carol"}); err != nil {
			t.Fatal(err)
		}
		if v := decide(t, host(0), rules.Attributes{user: "carol", path: "/login"}); v.Action != engine.Allow || v.Decision.Remaining != 1 {
			t.Errorf("got %s, %d left", said(v), v.Decision.Remaining)
		}
	})
	t.Run("settle", func(t *testing.T) {
		for i, used := range []string{"30", "5", "10", ""} {
			settle(t, decide(t, host(i), request("/tokens")), map[string]string{"X-Used": used})
		}
		if left := remaining(t, host(0), request("/tokens")); left["tokens:1"] != 100-30-5-10-10 {
			t.Errorf("got %v, want 45", left)
		}
	})
	t.Run("count what they reject", func(t *testing.T) {
		for i, want := range []int{0, 0, 60, 90} {
			if v := decide(t, host(i), request("/login")); v.RetryAfter != seconds(want) {
				t.Errorf("request %d: got %s, retry after %v, want %ds", i, said(v), v.RetryAfter, want)
			}
		}
	})
}

// While Redis is unreachable, each host decides by on_failure of the rules. Afterwards hosts share limits again.
func TestHostsDecideWithoutRedis(t *testing.T) {
	safe := headgate.PerHour(1)
	f := newFleet(t,
		rules.Rule{ID: "open", When: is(path, "/open"), Limits: limits("1/h")},
		rules.Rule{ID: "closed", When: is(path, "/closed"), Limits: limits("10/h"), OnFailure: headgate.Closed},
		rules.Rule{ID: "local", When: is(path, "/local"), Limits: limits("10/h"), OnFailure: headgate.Local, Safe: &safe},
	)
	f.server.Kill()
	for i, e := range f.hosts {
		for _, tt := range []struct{ path, first, second string }{
			{"/open", "allow by open", "allow by open"},
			{"/closed", "reject (store failed) by closed", "reject (store failed) by closed"},
			{"/local", "allow by local", "reject (over limit) by local"},
		} {
			for _, want := range []string{tt.first, tt.second} {
				v := decide(t, e, rules.Attributes{path: tt.path})
				if said(v) != want || !v.Degraded {
					t.Errorf("host %d, %s: got %s, degraded %v, want %s", i, tt.path, said(v), v.Degraded, want)
				}
				if v.Action.Passes() {
					settle(t, v, nil)
				}
			}
		}
	}
}

func TestRemovingAClientForgetsAllPartsOfASplitKey(t *testing.T) {
	f := newFleet(t, rules.Rule{ID: "hot", Key: by(user), Limits: limits("40/h"), Split: 4})
	e := f.hosts[0]
	if err := e.AddClient(rules.Client{ID: "alice"}); err != nil {
		t.Fatal(err)
	}
	for n := 0; decide(t, e, alice()).Action.Passes(); n++ {
		if n > 40 {
			t.Fatal("got more than 40 of 40")
		}
	}
	if err := e.RemoveClient(context.Background(), "alice"); err != nil {
		t.Fatal(err)
	}
	if got := remaining(t, e, alice()); got["hot:1"] != 40 {
		t.Errorf("got %v left, want 40: parts of the key were not forgotten", got)
	}
}
