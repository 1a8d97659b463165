package alerts_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/alerts"
)

var start = time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)

// healthy returns a node without problems, seen at a time.
func healthy(id string, seen time.Time) control.Node {
	return control.Node{ID: id, Revision: 7, Seen: seen, Health: &control.HealthStats{MemoryBytes: 10, MemoryMaxBytes: 100}}
}

func TestEveryConditionIsFound(t *testing.T) {
	expires := start.Add(6 * 24 * time.Hour)
	primary := func(server string, ops int64) control.ServerStats {
		return control.ServerStats{
			Shard: server, Server: server, Role: control.RolePrimary, Up: true, Checked: start, OpsPerSecond: ops,
			MemoryBytes: 10, MemoryMaxBytes: 100,
		}
	}
	for _, test := range []struct {
		want   string
		change func(in *alerts.Input, n *control.Node)
	}{
		{"failing_open/store 5", func(_ *alerts.Input, n *control.Node) {
			n.Health.FailingOpen = []control.RuleRate{{Rule: "search", PerSecond: 5}}
		}},
		{"breaker_open/redis:1 1", func(_ *alerts.Input, n *control.Node) { n.Health.OpenShards = []string{"redis:1"} }},
		{"store_slow/redis 0.012", func(_ *alerts.Input, n *control.Node) { n.Health.StoreP99MS = 12 }},
		{"rules_stale/rules 0", func(in *alerts.Input, _ *control.Node) { in.Revision = 8 }},
		{"rules_stale/rules 1", func(_ *alerts.Input, n *control.Node) { n.Error = "limits: bad" }},
		{"node_silent/a 31", func(_ *alerts.Input, n *control.Node) { n.Seen = start.Add(-31 * time.Second) }},
		{"sync_lag/async 1.5", func(_ *alerts.Input, n *control.Node) {
			n.Fleet = &control.FleetStats{Sync: []control.SyncStats{{Mode: "async", Up: true, LagMS: 1500}}}
		}},
		{"sync_lag/gossip 1e+10", func(_ *alerts.Input, n *control.Node) {
			n.Fleet = &control.FleetStats{Sync: []control.SyncStats{{Mode: "gossip"}}}
		}},
		{"denial_spike/all requests 0.4", func(in *alerts.Input, _ *control.Node) {
			in.Requests, in.DeniedShare, in.EarlierShare, in.Comparable = 100, 0.4, 0.1, true
		}},
		{"", func(in *alerts.Input, _ *control.Node) {
			in.Requests, in.DeniedShare, in.EarlierShare, in.Comparable = 100, 0.4, 0.2, true
		}},
		{"", func(in *alerts.Input, _ *control.Node) { in.Requests, in.DeniedShare = 100, 0.4 }}, // a new service
		{"memory_near_cap/the nodes 0.91", func(_ *alerts.Input, n *control.Node) { n.Health.MemoryBytes = 91 }},
		{"memory_near_cap/r1 0.95", func(_ *alerts.Input, n *control.Node) {
			n.Health.Servers = []control.ServerStats{primary("r1", 1)}
			n.Health.Servers[0].MemoryBytes = 95
		}},
		{"hot_shard/r1 9000", func(_ *alerts.Input, n *control.Node) {
			n.Health.Servers = []control.ServerStats{primary("r1", 9000), primary("r2", 100), primary("r3", 100)}
		}},
		{"hot_shard/r1 9000", func(_ *alerts.Input, n *control.Node) {
			n.Health.Servers = []control.ServerStats{primary("r1", 9000), primary("r2", 4400)}
		}},
		{"", func(_ *alerts.Input, n *control.Node) {
			n.Health.Servers = []control.ServerStats{primary("r1", 9000), primary("r2", 4500)}
		}},
		{"", func(_ *alerts.Input, n *control.Node) {
			n.Health.Servers = []control.ServerStats{primary("r1", 9000)} // there are no others
		}},
		{"certificate_expiring/gateway -5.184e+05", func(_ *alerts.Input, n *control.Node) {
			n.Health.Certificates = []control.CertificateExpiry{{Listener: "gateway", Expires: expires}}
		}},
		{"", func(_ *alerts.Input, n *control.Node) {
			n.Health.Certificates = []control.CertificateExpiry{{Listener: "gateway", Expires: expires.AddDate(0, 0, 2)}}
		}},
		{"", func(*alerts.Input, *control.Node) {}},
	} {
		in := &alerts.Input{Nodes: []control.Node{healthy("a", start)}, Revision: 7}
		test.change(in, &in.Nodes[0])
		var got []string
		for _, f := range alerts.Find(in, start) {
			got = append(got, fmt.Sprintf("%s/%s %.4g", f.Condition.Name, f.Subject, f.Value))
		}
		if text := strings.Join(got, "; "); text != test.want {
			t.Errorf("got %q, want %q", text, test.want)
		}
	}
}

func TestSeveralNodesAreOneAlert(t *testing.T) {
	in := &alerts.Input{Nodes: []control.Node{healthy("b", start), healthy("a", start)}, Revision: 7}
	for i := range in.Nodes {
		in.Nodes[i].Health.FailingOpen = []control.RuleRate{{Rule: "search", PerSecond: 5}}
		in.Nodes[i].Health.OpenShards = []string{"redis:1"}
	}
	var book alerts.Book
	book.Update(alerts.Find(in, start), start)
	fired := book.Update(alerts.Find(in, start), start.Add(alerts.FailingOpen.For)).Fired
	if len(fired) != 2 {
		t.Fatalf("got %d alerts, want one of each condition", len(fired))
	}
	for _, a := range fired {
		if fmt.Sprint(a.Nodes) != "[a b]" {
			t.Errorf("%s: got nodes %v, want a and b", a.ID, a.Nodes)
		}
	}
	if got := fired[1].Summary; got != "About 10 requests/s pass without a limit under the rule search" {
		t.Errorf("got %q, want the sum of the nodes", got)
	}
}

// One stopped Redis concerns many rules, but is one alert. A request under several rules counts once.
func TestRulesThatFailOpenAreOneAlert(t *testing.T) {
	in := &alerts.Input{Nodes: []control.Node{healthy("a", start)}, Revision: 7}
	in.Nodes[0].Health.UnlimitedPerSecond = 30
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		in.Nodes[0].Health.FailingOpen = append(in.Nodes[0].Health.FailingOpen, control.RuleRate{Rule: id, PerSecond: 20 + float64(i)})
	}
	got := alerts.Find(in, start)
	if len(got) != 1 || got[0].Value != 30 || fmt.Sprint(got[0].Rules) != "[e d c b a]" {
		t.Fatalf("got %+v, want one finding of 30 requests/s under all rules", got)
	}
	if want := "About 30 requests/s pass without a limit under the rules e, d, c and 2 more"; got[0].Summary != want {
		t.Errorf("got %q, want %q", got[0].Summary, want)
	}
	in.Nodes[0].Health.FailingOpen = in.Nodes[0].Health.FailingOpen[:3]
	if got, want := alerts.Find(in, start)[0].Summary, "About 30 requests/s pass without a limit under the rules c, b and a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A heartbeat names the rules with the most requests, and says how many there are. The fallback has the figures of the
// alert.
func TestFallbackHasTheFiguresOfTheAlert(t *testing.T) {
	nodes := []control.Node{healthy("a", start), healthy("b", start), healthy("c", start), healthy("d", start.Add(-time.Hour))}
	for i := range 30 {
		rate := control.RuleRate{Rule: fmt.Sprintf("r%02d", i), PerSecond: 3}
		for n := range 2 {
			nodes[n].Health.FailingOpen = append(nodes[n].Health.FailingOpen, rate)
		}
		nodes[3].Health.FailingOpen = append(nodes[3].Health.FailingOpen, rate)
	}
	for n := range 2 {
		h := nodes[n].Health
		h.FailingOpenRules, h.UnlimitedPerSecond, h.UnlimitedSince = 30, 90, start.Add(time.Duration(n-9)*time.Second)
		h.Clamp()
	}
	nodes[1].Health.UnlimitedUntil = start.Add(-time.Second)
	nodes[2].Health.OtherFallbacks = []string{"strict"}
	got := alerts.FindFallback("shop", nodes, start)
	text := fmt.Sprintf("%s %v/s %d %s %v %v of %d since %v until %v", got.Namespace, got.UnlimitedPerSecond, got.OpenRuleCount,
		got.OpenRules[0], got.OtherRules, got.Nodes, got.LiveNodes, got.Since.Sub(start), got.Until.IsZero())
	if want := "shop 180/s 30 r00 [strict] [a b] of 3 since -9s until true"; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	summary := func() string { return alerts.Find(&alerts.Input{Nodes: nodes[:3], Revision: 7}, start)[0].Summary }
	if got, want := summary(), "About 180 requests/s pass without a limit under the rules r00, r01, r02 and 27 more"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	nodes[0].Health.UnlimitedUntil = start.Add(-2 * time.Second)
	if got := alerts.FindFallback("shop", nodes, start).Until.Sub(start); got != -time.Second || !strings.Contains(summary(), "passed") {
		t.Errorf("got until %v and %s, want the time of the last request and the past", got, summary())
	}
	if got := alerts.FindFallback("shop", nodes[3:], start); got != nil {
		t.Errorf("got %+v without live nodes, want nil", got)
	}
}

func TestRatesOfAlertsAreReadable(t *testing.T) {
	for rate, want := range map[float64]string{0.04: "under 0.1", 0.954: "1", 2.34: "2.3", 40_123.4: "40123"} {
		in := &alerts.Input{Nodes: []control.Node{healthy("a", start)}, Revision: 7}
		in.Nodes[0].Health.FailingOpen = []control.RuleRate{{Rule: "search", PerSecond: rate}}
		want = "About " + want + " requests/s pass without a limit under the rule search"
		if got := alerts.Find(in, start)[0].Summary; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAlertFiresOnceAndResolvesOnce(t *testing.T) {
	var book alerts.Book
	finding := []alerts.Finding{{Condition: alerts.BreakerOpen, Subject: "redis:1", Summary: "The circuit is open"}}
	step := func(at time.Duration, findings []alerts.Finding) string {
		c := book.Update(findings, start.Add(at))
		return fmt.Sprintf("%d fired, %d resolved, %d expired", len(c.Fired), len(c.Resolved), len(c.Expired))
	}
	const nothing = "0 fired, 0 resolved, 0 expired"
	for _, s := range []struct {
		at    time.Duration
		holds bool
		want  string
	}{
		{0, true, nothing},
		{25 * time.Second, true, nothing},
		{28 * time.Second, false, nothing}, // it held for less than its time
		{30 * time.Second, true, nothing},
		{60 * time.Second, true, "1 fired, 0 resolved, 0 expired"},
		{65 * time.Second, true, nothing},
		{70 * time.Second, false, nothing}, // it may come back at once
		{75 * time.Second, true, nothing},
		{100 * time.Second, false, nothing},
		{105 * time.Second, false, "0 fired, 1 resolved, 0 expired"},
		{110 * time.Second, false, nothing},
		{120 * time.Second, true, nothing},
		{150 * time.Second, true, "1 fired, 0 resolved, 0 expired"},
		{180 * time.Second, false, "0 fired, 1 resolved, 0 expired"},
		{25 * time.Hour, false, "0 fired, 0 resolved, 1 expired"},
	} {
		findings := finding
		if !s.holds {
			findings = nil
		}
		if got := step(s.at, findings); got != s.want {
			t.Errorf("after %v: got %s, want %s", s.at, got, s.want)
		}
	}
}

func TestAlertsAreBounded(t *testing.T) {
	var book alerts.Book
	var findings []alerts.Finding
	for i := range 2000 {
		findings = append(findings, alerts.Finding{Condition: alerts.BreakerOpen, Subject: fmt.Sprint(i)})
	}
	book.Update(findings, start)
	if fired := book.Update(findings, start.Add(time.Minute)).Fired; len(fired) != 500 {
		t.Errorf("got %d alerts, want 500", len(fired))
	}
}

func TestEveryConditionHasARunbookAndAPrometheusAlert(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/prometheus/headgate.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range alerts.Conditions() {
		if _, err := os.Stat("../../../" + c.Runbook); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		_, rule, found := strings.Cut(string(text), "alert: Headgate"+strings.ReplaceAll(title(c.Name), "_", "")+"\n")
		if !found {
			t.Errorf("%s: Prometheus has no alert like it", c.Name)
			continue
		}
		_, after, _ := strings.Cut(rule, "for: ")
		after, _, _ = strings.Cut(after, "\n")
		if got, err := time.ParseDuration(after); err != nil || got != c.For {
			t.Errorf("%s: fires after %v, that of Prometheus after %s", c.Name, c.For, after)
		}
		page := strings.TrimSuffix(strings.TrimPrefix(c.Runbook, "docs"), ".md") + ".html'"
		if !strings.Contains(rule, page) {
			t.Errorf("%s: Prometheus has another runbook than %s", c.Name, c.Runbook)
		}
	}
}

// title returns a name with each word in upper case.
func title(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words {
		words[i] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "_")
}
