package footprint

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// What a rules service has to carry with maxServiceCPU of a core.
const (
	fleetNodes    = 50
	fleetRules    = 100
	fleetClients  = 1_000_000
	maxServiceCPU = 0.05
)

// TestSoakFleetReports measures the processor time of a rules service to which 50 nodes send the reports, heartbeats and
// streams of nodes, with 100 active rules and Zipf traffic of a million clients. Each fifth second, a report has the 500
// clients with the most requests, and as many with the most denials.
func TestSoakFleetReports(t *testing.T) {
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("set HEADGATE_SOAK=1, as make soak does")
	}
	const token = "a-token-of-the-test-of-reports"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, build(t, "CGO_ENABLED=0"), "--admin-token-file", file, "--demo-traffic", "off")
	newClient := func() *remote.Client {
		c, err := remote.New(remote.Config{URL: "http://" + p.admin, Token: token, Timeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	admin := newClient()
	for i := range fleetRules {
		rule := fmt.Sprintf(`{"id":%q,"key":["user"],"limits":["1000/s"]}`, ruleName(i))
		if _, err := admin.Put(t.Context(), remote.Rules, ruleName(i), []byte(rule), control.AnyRevision); err != nil {
			t.Fatal(err)
		}
	}
	var nodes sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range fleetNodes {
		n := &reportingNode{id: fmt.Sprintf("node-%d", i), client: newClient(), started: time.Now()}
		nodes.Go(func() { n.watch(ctx) })
		nodes.Go(func() {
			if err := n.run(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("%s: %v", n.id, err)
			}
		})
	}
	pause(10 * time.Second) // connections and streams are open then
	before, began := cpuTime(t, p.pid), time.Now()
	pause(2 * time.Minute)
	share := (cpuTime(t, p.pid) - before).Seconds() / time.Since(began).Seconds()
	stop()
	nodes.Wait()
	var series traffic.Series
	query := url.Values{"window": {"1m"}, "limit": {"1000"}}
	if err := admin.Do(t.Context(), http.MethodGet, "/v1/traffic", query, nil, &series); err != nil {
		t.Fatal(err)
	}
	if got := len(series.Rules); got < fleetRules {
		t.Errorf("got the traffic of %d rules, want %d", got, fleetRules)
	}
	t.Logf("the rules service needs %.2f %% of a core, and %d MB", 100*share, resident(t, p.pid)>>20)
	if share > maxServiceCPU {
		t.Errorf("the rules service needs %.2f %% of a core, want at most %.0f %%", 100*share, 100*maxServiceCPU)
	}
}

func ruleName(i int) string { return fmt.Sprintf("rule-of-some-length-%d", i) }

// A reportingNode sends what a node sends to its rules service.
type reportingNode struct {
	id      string
	client  *remote.Client
	started time.Time
}

// watch follows the changes of rules.
func (n *reportingNode) watch(ctx context.Context) {
	for range n.client.Watch(ctx) {
	}
}

// run sends a report every two seconds and a heartbeat every ten, until ctx ends.
func (n *reportingNode) run(ctx context.Context) error {
	random := rand.New(rand.NewPCG(uint64(n.started.UnixNano()), 1))
	zipf := rand.NewZipf(random, 1.001, 1, fleetClients-1)
	pause(time.Duration(random.IntN(2000)) * time.Millisecond) // nodes do not start at the same time
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		if i%5 == 0 {
			state := control.Node{ID: n.id, Version: "test", Store: "ok", Started: n.started, Health: &control.HealthStats{MemoryMaxBytes: 1 << 30}}
			if _, err := n.client.Heartbeat(ctx, state); err != nil {
				return err
			}
		}
		var response control.TrafficResponse
		report := n.report(time.Now().Unix(), random, zipf)
		if err := n.client.Do(ctx, http.MethodPost, "/v1/traffic:report", nil, report, &response); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// report returns the report of two seconds that end before now.
func (n *reportingNode) report(now int64, random *rand.Rand, zipf *rand.Zipf) *traffic.Report {
	r := &traffic.Report{Node: n.id, Started: n.started.UnixMicro()}
	for unix := now - 2; unix < now; unix++ {
		second := traffic.Second{Unix: unix}
		for i := range fleetRules + 1 {
			requests := uint64(10_000 + random.IntN(5000))
			row := traffic.Row{Counts: traffic.Counts{Requests: requests, Denied: requests / 50, Cost: requests, Timed: requests / 32, TookNS: requests * 50}}
			if i > 0 {
				row.Rule = ruleName(i - 1)
			}
			second.Rows = append(second.Rows, row)
		}
		r.Seconds = append(r.Seconds, second)
		if unix%5 != 0 {
			continue
		}
		r.Minute, r.Clients = unix-unix%60, nil
		for known := map[uint64]bool{}; len(known) < 1000; {
			id := zipf.Uint64()
			if known[id] {
				continue
			}
			known[id] = true
			r.Clients = append(r.Clients, traffic.ClientCount{
				Client: traffic.NewClient(map[string]string{"user": fmt.Sprintf("client-%d", id)}), Rule: ruleName(int(id % fleetRules)),
				Requests: uint64(1+unix%60) * (2_000_000 / (id + 10)), Denied: uint64(unix % 60), Error: id % 3,
			})
		}
	}
	return r
}

// pause waits: time is what is measured here.
func pause(d time.Duration) { <-time.After(d) }

// cpuTime returns the processor time that a process has used.
func cpuTime(t *testing.T, pid int) (total time.Duration) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks { // threads of Go programs do not end
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var ns int64
		if _, err := fmt.Fscan(strings.NewReader(string(text)), &ns); err != nil {
			t.Fatal(err)
		}
		total += time.Duration(ns)
	}
	return total
}
