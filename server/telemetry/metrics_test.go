package telemetry_test

import (
	"errors"
	"flag"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/fleet/gossip"
	"github.com/headgate/headgate/server/gateway"
	"github.com/headgate/headgate/server/gateway/upstream"
	"github.com/headgate/headgate/server/overload"
	"github.com/headgate/headgate/server/service/envoyrls"
	"github.com/headgate/headgate/server/service/resp"
	"github.com/headgate/headgate/server/telemetry"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// allSources has something of everything.
func allSources() *telemetry.Sources {
	return &telemetry.Sources{
		Memory: func() memstore.Stats {
			return memstore.Stats{Keys: 1, Bytes: 2, MaxBytes: 3, Evictions: 4, Refusals: 5}
		},
		Guard: func() guard.Stats {
			return guard.Stats{Calls: 10, Failures: 5, Timeouts: 2, Probes: 4, ProbesFailed: 3, CacheHits: 7}
		},
		Shards: func() []telemetry.ShardStatus {
			return []telemetry.ShardStatus{{Name: "a:6379", Up: true}, {Name: "b:6379"}}
		},
		Servers: func() []redisstore.ShardHealth {
			return []redisstore.ShardHealth{
				{Server: "a:6379", Primary: true, Ping: 250 * time.Microsecond, MemoryUsed: 1 << 20, Evicted: 3},
				{Server: "b:6379", Err: errors.New("no response"), Counts: redisstore.Counts{Hangs: 2}},
				{Server: "c:6379", Primary: true, Version: "7.4.1", Evicted: 9, NetworkIn: 700, MemoryUsed: 50, Err: errors.New("no response")},
			}
		},
		Fleet: func() telemetry.Fleet {
			return telemetry.Fleet{
				FleetStats: control.FleetStats{
					Live: 2, Known: 3,
					Leases: &control.LeaseStats{Keys: 1, Calls: 9, Failed: 2, Granted: 50, Returned: 4, Expired: 3, Denied: 8, Waits: 5, DecidedInStore: 6, Degraded: 7},
					Sync: []control.SyncStats{
						{Mode: "async", Up: true, Sent: 6, Received: 7, Keys: 4, Applied: 11, ExcessUnits: 3, MaxExcess: 2, LagMS: 50, LagMaxMS: 1000},
						{Mode: "gossip", Refused: 1},
					},
				},
				Gossip: &gossip.Stats{SentBytes: 1000, ReceivedBytes: 2000, WrongKey: 3},
			}
		},
		LostRefunds: func() int64 { return 6 },
		Waiting:     func() int { return 8 },
		Enforcement: func() telemetry.Enforcement {
			return telemetry.Enforcement{RulesOff: 2, Suspensions: map[string]int{control.ScopeNode: 1}, Ends: time.Unix(1_800_000_000, 0)}
		},
		Gateway: func() gateway.Stats {
			return gateway.Stats{
				Conns: 3, Responses: [6]int64{1, 0, 20, 0, 4, 5},
				Certificates: []gateway.CertificateStats{
					{Listener: ":443", NotAfter: time.Unix(1_900_000_000, 0)}, {Listener: ":443", NotAfter: time.Unix(1_800_000_000, 0)},
				},
				Upstreams: []gateway.UpstreamStats{{Route: "/", URL: "http://a:1", Up: true, Pool: upstream.Stats{Open: 5, Idle: 2}, Checks: 9, ChecksFailed: 1}},
			}
		},
		Follow:   func() follow.Status { return follow.Status{Checked: time.Unix(1_800_000_000, 0)} },
		Database: func() *telemetry.DatabaseStatus { return &telemetry.DatabaseStatus{Writable: true} },
		Overload: func() overload.Stats { return overload.Stats{Shed: map[overload.Stage]int64{overload.Console: 1}} },
		RESP:     func() resp.Stats { return resp.Stats{} },
		Listeners: func() []telemetry.Listener {
			return []telemetry.Listener{{Name: "api", Open: 2, Accepted: 5, Refused: 1}}
		},
		Envoy: func() envoyrls.Stats {
			return envoyrls.Stats{Requests: 9, Over: 2, Loads: 1, Limits: []envoyrls.Hits{{Domain: "api", Descriptor: "user", Within: 7, Over: 2}}}
		},
	}
}

// everything returns metrics with at least one sample of each.
func everything(t *testing.T) *telemetry.Metrics {
	t.Helper()
	store := memory(t)
	r := newRig(t, everyKind, store, true)
	if err := store.Close(); err != nil { // so that a policy decides
		t.Fatal(err)
	}
	r.ask(1, "path", "/nothing")
	r.ask(1, "path", "/reject", "user", "alice")
	if err := r.metrics.Register(allSources()); err != nil {
		t.Fatal(err)
	}
	r.metrics.Timed("redis", &remote{Store: memory(t)})
	r.metrics.Fault("engine")
	r.metrics.ObserveShard("10.0.0.1:6379", time.Millisecond)
	r.metrics.ObserveRequest(&gateway.Observation{Route: "shop", Duration: time.Millisecond, UpstreamDuration: time.Millisecond})
	return r.metrics
}

// The names of metrics and labels are what panels and alarms are built on, so a change is made on purpose: -update.
func TestTheNamesOfAllMetrics(t *testing.T) {
	const path = "testdata/metrics.txt"
	var names []string
	for name := range scrape(t, everything(t)) {
		if !strings.HasPrefix(name, "headgate_") || strings.Contains(name, "_bucket{") && !strings.Contains(name, "+Inf") {
			continue // the runtime's are not ours
		}
		base, labels, _ := strings.Cut(name, "{")
		var list []string
		for part := range strings.SplitSeq(strings.TrimSuffix(labels, "}"), ",") {
			if label, _, ok := strings.Cut(part, "="); ok {
				list = append(list, label)
			}
		}
		if name := strings.TrimSpace(base + " " + strings.Join(list, " ")); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	got := strings.Join(names, "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// docs/reference/metrics.md has every metric as a scrape shows it: name, type, labels and help.
func TestReferenceOfMetricsIsUpToDate(t *testing.T) {
	const path = "../../docs/reference/metrics.md"
	names, err := os.ReadFile("testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for line := range strings.Lines(string(names)) {
		name, list, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasSuffix(name, "_seconds_bucket") { // its label le is not ours
			labels[strings.TrimSuffix(name, "_count")] = strings.ReplaceAll(list, " ", ", ")
		}
	}
	rows := map[string]string{}
	w := httptest.NewRecorder()
	everything(t).Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(w.Body.String()) {
		kind, rest, ours := strings.Cut(strings.TrimSpace(line), " headgate_")
		name, text, _ := strings.Cut(rest, " ")
		switch {
		case ours && kind == "# HELP":
			rows[name] = strings.ReplaceAll(text, "|", "\\|")
		case ours && kind == "# TYPE":
			rows[name] = "| `headgate_" + name + "` | " + text + " | " + labels["headgate_"+name] + " | " + rows[name] + " |\n"
		}
	}
	source, err := os.ReadFile("names.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`desc\("(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if rows[m[1]] == "" {
			t.Errorf("no scrape of allSources has headgate_%s, want all metrics of names.go", m[1])
		}
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\nEvery metric of `/metrics` on the admin listener. [Alerts](../alerts.md) and [operations](../operate.md#metrics) " +
		"say which to watch. The metrics of the\nGo runtime and the process (`go_…`, `process_…`) come on top.\n\n" +
		"| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name])
	}
	want := b.String()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/reference/metrics.md: got\n%s\nwant (go test -update)\n%s", got, want)
	}
}

func TestSourcesAreAskedAtEachScrape(t *testing.T) {
	m := telemetry.New("1.2.3")
	s := allSources()
	waiting := 1
	s.Waiting = func() int { return waiting }
	if err := m.Register(s); err != nil {
		t.Fatal(err)
	}
	expect(t, scrape(t, m), map[string]string{"headgate_delayed_requests": "1"})
	waiting = 2
	expect(t, scrape(t, m), map[string]string{
		"headgate_delayed_requests":                                                         "2",
		`headgate_breaker_state{shard="a:6379"}`:                                            "0",
		`headgate_breaker_state{shard="b:6379"}`:                                            "1",
		`headgate_redis_up{role="primary",server="a:6379"}`:                                 "1",
		`headgate_redis_ping_seconds{role="primary",server="a:6379"}`:                       "0.00025",
		`headgate_redis_evicted_keys_total{role="primary",server="a:6379"}`:                 "3",
		`headgate_redis_up{role="replica",server="b:6379"}`:                                 "0",
		`headgate_redis_hangs_total{role="replica",server="b:6379"}`:                        "2",
		`headgate_redis_memory_bytes{role="replica",server="b:6379"}`:                       "", // not known
		`headgate_redis_up{role="primary",server="c:6379"}`:                                 "0",
		`headgate_redis_memory_bytes{role="primary",server="c:6379"}`:                       "50", // of its last report
		`headgate_redis_evicted_keys_total{role="primary",server="c:6379"}`:                 "9",
		`headgate_redis_network_bytes_total{direction="in",role="primary",server="c:6379"}`: "700",
		`headgate_redis_operations_per_second{role="primary",server="c:6379"}`:              "0",
		`headgate_guard_failures_total{reason="timeout"}`:                                   "2",
		`headgate_guard_failures_total{reason="error"}`:                                     "3",
		`headgate_guard_probes_total{result="ok"}`:                                          "1",
		`headgate_fleet_nodes{state="live"}`:                                                "2",
		`headgate_fleet_nodes{state="known"}`:                                               "3",
		`headgate_lease_calls_total{result="ok"}`:                                           "7",
		`headgate_lease_units_total{kind="returned"}`:                                       "4",
		`headgate_lease_checks_total{kind="exact"}`:                                         "6",
		`headgate_sync_units_total{kind="over",mode="async"}`:                               "3",
		`headgate_sync_lag_seconds{mode="async",stat="mean"}`:                               "0.05",
		`headgate_sync_up{mode="async"}`:                                                    "1",
		`headgate_sync_up{mode="gossip"}`:                                                   "0",
		`headgate_sync_updates_total{kind="refused",mode="gossip"}`:                         "1",
		`headgate_gossip_bytes_total{direction="received"}`:                                 "2000",
		`headgate_memory_keys{store="memory"}`:                                              "1",
		`headgate_gateway_responses_total{class="2xx"}`:                                     "20",
		`headgate_gateway_responses_total{class="none"}`:                                    "1",
		`headgate_upstream_up{route="/",upstream="http://a:1"}`:                             "1",
		`headgate_upstream_connections{route="/",state="busy",upstream="http://a:1"}`:       "3",
	})
	if err := m.Register(s); err == nil {
		t.Error("sources that are registered twice are no error")
	}
}

func TestRulesThatAreRefusedShow(t *testing.T) {
	r := newRig(t, everyKind, memory(t), false)
	expect(t, scrape(t, r.metrics), map[string]string{"headgate_rules_stale": "0", `headgate_rules_loads_total{result="ok"}`: "1"})
	r.metrics.RulesRefused()
	r.metrics.RulesRefused()
	expect(t, scrape(t, r.metrics), map[string]string{
		"headgate_rules_stale": "1", "headgate_rules_revision": "1", `headgate_rules_loads_total{result="refused"}`: "2",
		"headgate_rules_loaded_timestamp_seconds": "1.8e+09",
	})
	r.metrics.RulesUnchanged() // the old file is back
	expect(t, scrape(t, r.metrics), map[string]string{"headgate_rules_stale": "0", `headgate_rules_loads_total{result="unchanged"}`: "1"})
}

func TestTheEarliestCertificateOfAListenerIsShown(t *testing.T) {
	m := telemetry.New("test")
	if err := m.Register(allSources()); err != nil {
		t.Fatal(err)
	}
	got := scrape(t, m)
	for name, want := range map[string]string{
		`headgate_certificate_expiry_timestamp_seconds{listener=":443"}`: "1.8e+09",
		`headgate_enforcement_off{scope="node"}`:                         "1",
		`headgate_enforcement_off_rules`:                                 "2",
		`headgate_enforcement_off_end_timestamp_seconds`:                 "1.8e+09",
	} {
		if got[name] != want {
			t.Errorf("%s: got %s, want %s", name, got[name], want)
		}
	}
}
