package limiters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/await"
	"github.com/headgate/headgate/internal/logbook"
	"github.com/headgate/headgate/internal/redistest"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/gossip"
	"github.com/headgate/headgate/server/telemetry"
)

// openParts opens the stores and fleet limiters of a node, and nothing else. The returned function closes them, once.
func openParts(t *testing.T, log *slog.Logger, id string, flags map[string]string) (fl *Fleet, end func()) {
	t.Helper()
	c, _, err := config.Load(config.Inputs{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenStores(t.Context(), StoreOptions{Config: c, MayBeUnreachable: true, Metrics: telemetry.New("test"), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	fl = NewFleet(c, s, id, log)
	if err := fl.Open(t.Context(), nil); err != nil {
		fl.Close()
		t.Fatal(errors.Join(err, s.Close()))
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		fl.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(end)
	return fl, end
}

// patient returns a configuration file with a Redis deadline that is long enough for a busy machine.
func patient(t *testing.T, more string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(path, []byte("redis: { deadline: 5s }\n"+more), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func modesOf(list map[rules.Consistency]headgate.Limiter) (names []string) {
	for mode := range list {
		names = append(names, mode.String())
	}
	slices.Sort(names)
	return names
}

func syncModes(f *control.FleetStats) (names []string) {
	for i := range f.Sync {
		names = append(names, f.Sync[i].Mode)
	}
	return names
}

func TestSettingsEnableFleetLimiters(t *testing.T) {
	home, globe := redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})
	config := patient(t, "")
	for _, test := range []struct {
		name          string
		flags         map[string]string
		modes, global []string
		sync          []string
		leases, shown bool
	}{
		{"memory", map[string]string{}, nil, nil, nil, false, false},
		{"gossip", map[string]string{"gossip-addr": "127.0.0.1:0"}, []string{"gossip"}, nil, []string{"gossip"}, false, true},
		{"redis", map[string]string{"store": home.URL(), "config": config}, []string{"async", "lease"}, nil, []string{"async"}, true, true},
		{
			"regions and gossip",
			map[string]string{
				"store": home.URL(), "global-store": globe.URL(), "region": "eu", "gossip-addr": "127.0.0.1:0", "config": config,
			},
			[]string{"async", "gossip", "lease"},
			[]string{"async", "exact", "lease"},
			[]string{"async", "global", "gossip"},
			true, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			fl, end := openParts(t, slog.New(slog.DiscardHandler), "n1", test.flags)
			defer end()
			if got := modesOf(fl.ByConsistency()); !slices.Equal(got, test.modes) {
				t.Errorf("modes: got %v, want %v", got, test.modes)
			}
			if got := modesOf(fl.Global()); !slices.Equal(got, test.global) {
				t.Errorf("modes between regions: got %v, want %v", got, test.global)
			}
			f := fl.Stats()
			if got := syncModes(&f.FleetStats); !slices.Equal(got, test.sync) || (f.Leases != nil) != test.leases {
				t.Errorf("sync of %v, leases %t; want %v, %t", got, f.Leases != nil, test.sync, test.leases)
			}
			shown := fl.Report()
			if (shown != nil) != test.shown {
				t.Fatalf("heartbeats: got %+v, want it shown %t", shown, test.shown)
			}
			if shown == nil {
				return
			}
			if shown.Live != 1 || shown.Known != 1 || len(shown.Sync) != len(test.sync) || (shown.Leases != nil) != test.leases {
				t.Errorf("heartbeats: got %+v", shown)
			}
			if shown.Isolated() {
				t.Errorf("got %+v, want all modes up", shown.Sync)
			}
			if wrong := shown.Problems(); wrong != nil {
				t.Errorf("heartbeats would be refused: %+v", wrong)
			}
		})
	}
}

func TestGossipHasTheSettingsOfTheFleet(t *testing.T) {
	for text, want := range map[string]gossip.Options{
		"": {Cluster: "headgate", Bandwidth: 1_000_000, Forget: 24 * time.Hour},
		"fleet: { name: shop, forget_after: 10m, bandwidth: 2MB }": {Cluster: "shop", Bandwidth: 2_000_000, Forget: 10 * time.Minute},
	} {
		path := filepath.Join(t.TempDir(), "headgate.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _, err := config.Load(config.Inputs{Flags: map[string]string{"config": path}})
		if err != nil {
			t.Fatal(err)
		}
		got := NewFleet(c, nil, "a", slog.New(slog.DiscardHandler)).gossipOptions(nil)
		got.Bandwidth, got.Forget = cmp.Or(got.Bandwidth, gossip.DefaultBandwidth), cmp.Or(got.Forget, gossip.DefaultForget)
		if got.Name != "a" || got.Cluster != want.Cluster || got.Bandwidth != want.Bandwidth || got.Forget != want.Forget {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}

func TestHeartbeatReportsSyncStatistics(t *testing.T) {
	n := exchangeStats("async", fleet.ExchangeStats{
		Sent: 8, Received: 9, Failures: 10, Malformed: 4, ClockAhead: -3 * time.Second,
		LedgerStats: fleet.LedgerStats{
			Lag: 1500 * time.Microsecond, LagMax: 2 * time.Second, Over: 1, OverMax: 2, Applied: 3, Keys: 6, Waiting: 7, Refused: 11,
			Evicted: 12, Full: 13, Lookups: 14, LookupWaits: 15, LookupsDropped: 16,
		},
	})
	const want = `{Mode:async Up:true LagMS:1.5 LagMaxMS:2000 ExcessUnits:1 MaxExcess:2 Applied:3 Lost:0 ClockAheadMS:-3000 SkewedClocks:1 Keys:6 ` +
		`Waiting:7 Sent:8 Received:9 Failed:10 Refused:15 Evicted:12 RefusedKeys:13 Lookups:14 LookupWaits:15 LookupsDropped:16}`
	if got := fmt.Sprintf("%+v", n); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The statistics of all region limiters are shown as one: counters are added, and other values are the maximum.
func TestRegionStatisticsAddUp(t *testing.T) {
	all := control.SyncStats{Mode: globalMode, Up: true}
	addSync(&all, control.SyncStats{
		Up: true, Lost: 1, Sent: 4, Received: 5, Failed: 6, ClockAheadMS: -9, SkewedClocks: 1, LagMS: 2, LagMaxMS: 30, ExcessUnits: 1, MaxExcess: 5,
		Applied: 7, Keys: 2, Waiting: 1, Refused: 7, Evicted: 2, RefusedKeys: 3, Lookups: 4, LookupWaits: 5, LookupsDropped: 6,
	})
	addSync(&all, control.SyncStats{
		Up: false, Lost: 10, Sent: 40, Received: 50, Failed: 60, ClockAheadMS: 8, SkewedClocks: 0, LagMS: 3, LagMaxMS: 20, ExcessUnits: 10, MaxExcess: 4,
		Applied: 70, Keys: 20, Waiting: 10, Refused: 70, Evicted: 20, RefusedKeys: 30, Lookups: 40, LookupWaits: 50, LookupsDropped: 60,
	})
	want := control.SyncStats{
		Mode: globalMode, Up: false, Lost: 11, Sent: 44, Received: 55, Failed: 66, ClockAheadMS: -9, SkewedClocks: 1, LagMS: 3, LagMaxMS: 30,
		ExcessUnits: 11, MaxExcess: 5, Applied: 77, Keys: 22, Waiting: 11, Refused: 77, Evicted: 22, RefusedKeys: 33, Lookups: 44, LookupWaits: 55,
		LookupsDropped: 66,
	}
	if all != want {
		t.Errorf("got  %+v\nwant %+v", all, want)
	}
}

func TestLongNodeNamesAreShortenedAndStayDistinct(t *testing.T) {
	long := strings.Repeat("x", 100)
	for id, want := range map[string]int{"n1": 2, long[:maxNodeName]: maxNodeName, long[:maxNodeName+1]: maxNodeName, long: maxNodeName} {
		if got := shortName(id); len(got) != want || want < maxNodeName && got != id {
			t.Errorf("%s: got %q of %d bytes, want %d", id, got, len(got), want)
		}
	}
	if a, b := shortName(long+"a"), shortName(long+"b"); a == b || a != shortName(long+"a") {
		t.Errorf("got %q and %q, want two names that stay the same", a, b)
	}
}

// Gossip is down until the node has joined a peer, and again when all peers are silent.
func TestStatusShowsWhetherGossipReachesPeers(t *testing.T) {
	t.Parallel()
	var book logbook.Book
	a, endA := openParts(t, slog.New(slog.DiscardHandler), "a", map[string]string{"gossip-addr": "127.0.0.1:0"})
	up := func(fl *Fleet) bool {
		f := fl.Stats()
		return f.Sync[0].Up
	}
	if !up(a) {
		t.Error("one that was to join nobody misses somebody")
	}
	at := a.gossip.Addr()
	b, _ := openParts(t, book.Logger(), "b", map[string]string{"gossip-addr": "127.0.0.1:0", "join": at})
	await.True(t, "both have heard of each other", func() bool { return a.nodeCounts.Live() == 2 && b.nodeCounts.Live() == 2 && up(a) && up(b) })
	await.True(t, "the log tells who has come", func() bool { return strings.Contains(book.String(), "node=a") })
	endA()
	await.True(t, "who has left is not missed", func() bool { return b.nodeCounts.Known() == 1 && up(b) })
	alone, _ := openParts(t, slog.New(slog.DiscardHandler), "c", map[string]string{"gossip-addr": "127.0.0.1:0", "join": at})
	if up(alone) {
		t.Error("one that has met nobody whom it was to join says that all is well")
	}
	if !alone.Report().Isolated() {
		t.Error("it is not degraded")
	}
}

// A node starts while Redis is unreachable, and connects once Redis responds.
func TestSyncIsDownUntilRedisResponds(t *testing.T) {
	t.Parallel()
	home, globe := redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})
	home.Kill()
	globe.Kill()
	var book logbook.Book
	fl, _ := openParts(t, book.Logger(), "n1", map[string]string{
		"store": home.URL(), "global-store": globe.URL(), "region": "eu", "config": patient(t, "fleet: { global_interval: 100ms }\n"),
	})
	ups := func() (list []bool) {
		for _, n := range fl.Stats().Sync {
			list = append(list, n.Up)
		}
		return list
	}
	if got := ups(); !slices.Equal(got, []bool{false, false}) {
		t.Errorf("with both unreachable: got %v, want async and global down", got)
	}
	check := headgate.Check{Key: "k", Limit: headgate.PerHour(5), Cost: 1, OnFailure: headgate.Local}
	for mode, limiter := range fl.ByConsistency() {
		if d, err := limiter.Take(t.Context(), check); err != nil || !d.Degraded || !d.Allowed {
			t.Errorf("%s: got %+v, %v, want a decision without the store", mode, d, err)
		}
	}
	home.Restart()
	await.True(t, "async is up once the regional store responds", func() bool { return slices.Equal(ups(), []bool{true, false}) })
	globe.Restart()
	await.True(t, "region sync is up once the global store responds", func() bool { return slices.Equal(ups(), []bool{true, true}) })
	globe.Kill()
	for _, limiter := range fl.Global() { // there is something to tell
		if _, err := limiter.Take(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	}
	await.True(t, "region sync is down when the global store is gone", func() bool { return slices.Equal(ups(), []bool{true, false}) })
	await.True(t, "the log says which store is unreachable", func() bool {
		for line := range strings.Lines(book.String()) {
			if strings.Contains(line, fleet.ExchangeUnreachable.String()) && strings.Contains(line, "mode="+globalMode) {
				return true
			}
		}
		return false
	})
}

// While the global store hangs, leases still return to the regional store and the node leaves its membership.
func TestHangingGlobalStoreDoesNotBlockClose(t *testing.T) {
	t.Parallel()
	home, globe := redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})
	proxy := redistest.NewProxy(t, globe.Addr())
	fl, end := openParts(t, slog.New(slog.DiscardHandler), "n1", map[string]string{
		"store": home.URL(), "global-store": "redis://" + proxy.Addr() + "?hang_timeout=1m&dial_timeout=1m", "region": "eu",
		"config": patient(t, "fleet: { global_interval: 10s }\n"),
	})
	registered := func() (known int64) {
		t.Helper()
		keys, err := home.Do("KEYS", "*:members")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys.([]any) {
			n, err := home.Do("ZCARD", key.(string))
			if err != nil {
				t.Fatal(err)
			}
			known += n.(int64)
		}
		return known
	}
	if got := registered(); got != 1 {
		t.Fatalf("%d nodes registered, want 1", got)
	}
	check := headgate.Check{Key: "k", Limit: headgate.PerHour(1000), Cost: 1}
	proxy.Blackhole()
	for _, limiter := range fl.Global() { // so that there is something to tell who does not answer
		if _, err := limiter.Take(t.Context(), check); err != nil {
			t.Fatal(err)
		}
	}
	end()
	if got := registered(); got != 0 {
		t.Errorf("%d nodes registered after it has left, want none", got)
	}
}

// The node may not write to the store.
func TestUnusableStoreIsLogged(t *testing.T) {
	t.Parallel()
	var book logbook.Book
	tries := 0
	late := newLazyLimiter[*async.Limiter](nil)
	err := late.open(t.Context(), func(context.Context) (*async.Limiter, error) {
		if tries++; tries == 1 {
			return nil, context.DeadlineExceeded
		}
		return nil, errors.New("no permission")
	}, book.Logger())
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "the log says what is wrong", func() bool { return strings.Contains(book.String(), "no permission") })
	if err := late.close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := strings.Count(book.String(), "no permission"); got != 1 {
		t.Errorf("it is told %d times, want once", got)
	}
}

func TestClosedFleetLimitersLeaveNoGoroutines(t *testing.T) {
	home, globe := redistest.Standalone(t, redistest.Options{}), redistest.Standalone(t, redistest.Options{})
	flags := map[string]string{
		"store": home.URL(), "global-store": globe.URL(), "region": "eu", "gossip-addr": "127.0.0.1:0", "config": patient(t, ""),
	}
	before := runtime.NumGoroutine()
	for range 2 {
		_, end := openParts(t, slog.New(slog.DiscardHandler), "n1", flags)
		end()
	}
	// What fails at the end takes with it what was opened before.
	flags["join"], flags["gossip-key-file"] = "", filepath.Join(t.TempDir(), "none")
	delete(flags, "join")
	c, _, err := config.Load(config.Inputs{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenStores(t.Context(), StoreOptions{Config: c, MayBeUnreachable: true, Metrics: telemetry.New("test"), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	fl := NewFleet(c, s, "n1", slog.New(slog.DiscardHandler))
	if err := fl.Open(t.Context(), nil); err == nil {
		t.Error("got no error, want one about the missing gossip key")
	}
	fl.Close()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	await.Goroutines(t, before)
}
