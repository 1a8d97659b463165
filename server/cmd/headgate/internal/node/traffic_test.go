package node

import (
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// While the rules service is unreachable, a node keeps ten minutes of 100 rules, and less of more rules.
func TestUnsentTrafficIsBounded(t *testing.T) {
	for name, test := range map[string]struct{ rules, want int }{
		"few rules":  {rules: 100, want: maxUnsent},
		"many rules": {rules: 1000, want: maxUnsentRows / 1000},
	} {
		var reporter trafficReporter
		for unix := range int64(maxUnsent + 100) {
			rows := make([]traffic.Row, test.rules)
			reporter.add(&traffic.Report{Seconds: []traffic.Second{{Unix: unix, Rows: rows}}})
		}
		if got := len(reporter.seconds); got != test.want {
			t.Errorf("%s: got %d seconds, want %d", name, got, test.want)
		}
		if last := reporter.seconds[len(reporter.seconds)-1].Unix; last != maxUnsent+99 {
			t.Errorf("%s: got %d as the last second, want %d", name, last, maxUnsent+99)
		}
	}
}

// A node without requests asks for erasures every few seconds, and says which it has applied.
func TestIdleNodeLearnsOfErasures(t *testing.T) {
	var got []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var report traffic.Report
		if err := json.NewDecoder(r.Body).Decode(&report); err != nil {
			t.Error(err)
		}
		got = append(got, fmt.Sprintf("%s %d+%d", report.Cursor, len(report.Seconds), len(report.Clients)))
		_ = json.NewEncoder(w).Encode(control.TrafficResponse{
			Erase: []control.TrafficErasure{{Time: time.Unix(1, 0), Client: map[string]string{"user": "noisy"}}}, Cursor: "x:1",
		})
	}))
	defer service.Close()
	client, err := remote.New(remote.Config{URL: service.URL, Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	n := &Node{id: "idle", log: slog.New(slog.DiscardHandler)}
	n.namer, n.rulesService = traffic.NewNamer(traffic.Clear, nil), &rulesService{remote: client}
	n.ownTraffic = traffic.NewHistory(traffic.HistoryOptions{})
	n.recorder = traffic.NewRecorder(traffic.RecorderOptions{
		Counters: func() iter.Seq[traffic.Row] { return nil }, Sink: func(*traffic.Report) {}, Namer: n.namer,
	})
	n.reporter = &trafficReporter{node: n, appliedErasures: map[time.Time]bool{}, cursor: traffic.FirstCursor}
	for range 2 * idleReports {
		n.reporter.sendQueued(t.Context(), reportTimeout)
	}
	if want := []string{"0 0+0", "x:1 0+0"}; !slices.Equal(got, want) {
		t.Errorf("in %v: got the reports %q, want %q", 2*idleReports*reportEvery, got, want)
	}
	if len(n.reporter.appliedErasures) != 1 {
		t.Errorf("got %d erasures applied, want 1", len(n.reporter.appliedErasures))
	}
}
