//go:build !race

package traffic_test

import (
	"fmt"
	"iter"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/telemetry"
	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/telemetry/traffic/decisionlog"
)

// All statistics of a node with 10,000 rules in use stay within 32 MB. Each client sends three requests, so that tables,
// samples, series and the log of decisions are full.
func TestStatisticsOfANodeStayWithinMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about five seconds")
	}
	const count, bound = 10_000, 32_000_000
	set := rulesByPath(t, count, "1/h")
	store, err := memstore.New(memstore.Options{MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	metrics := telemetry.New("test")
	metrics.SetRules(telemetry.RuleLoad{Set: set, Revision: 1, Loaded: start})
	observe := metrics.Observe
	e, err := engine.New(engine.Config{Rules: set, Store: store, Observe: func(v *engine.Verdict) { observe(v) }})
	if err != nil {
		t.Fatal(err)
	}
	clients := 0
	send := func(n int) {
		var v engine.Verdict
		for range n {
			subject := attributes("user", strconv.Itoa(clients), "path", "/"+strconv.Itoa(clients%count))
			clients++
			for range 3 { // the second and the third are denied
				if err := e.Decide(t.Context(), subject, &v); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	send(count) // creates the counters of metrics

	before := heap()
	now := start
	namer := traffic.NewNamer(traffic.Clear, []byte("a secret of the fleet"))
	history := traffic.NewHistory(traffic.HistoryOptions{
		Keep: traffic.NodeHistoryKeep, MaxBytes: traffic.NodeHistoryMaxBytes, Clients: traffic.NodeHistoryClients, Namer: namer,
	})
	recorder := traffic.NewRecorder(traffic.RecorderOptions{
		Counters: metrics.Traffic, Node: "a", Started: start, Namer: namer, Now: func() time.Time { return now },
		Sink: func(r *traffic.Report) { history.Add(r, now) },
	})
	recorder.SetRules(set.Rules())
	log := decisionlog.New(decisionlog.Options{Namer: namer, Node: "a", Now: func() time.Time { return now }})
	observe = func(v *engine.Verdict) { metrics.Observe(v); recorder.Observe(v); log.Observe(v) }
	most := 0
	for minute := range 150 {
		send(1000)
		log.Tick()
		now = now.Add(time.Minute)
		recorder.Tick(now)
		history.CloseMinutes(now, false)
		if minute%10 == 9 {
			most = max(most, int(heap()-before))
		}
	}
	runtime.KeepAlive(e)
	t.Logf("%.1f MB", float64(most)/1e6)
	if most > bound {
		t.Errorf("got %d bytes, want at most %d", most, bound)
	}
}

// 5,000 clients of 50 rules send more than a request a second. Few of them are held, and others stay in the sample.
func TestSamplesOfManyHeavyClientsStayWithinMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about five seconds")
	}
	const ruleCount, clientCount, minutes, bound = 50, 100, 15, 12_000_000
	set := rulesByPath(t, ruleCount, "100/s")
	store, err := memstore.New(memstore.Options{MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	var subjects []rules.Subject
	for i := range ruleCount * clientCount {
		subjects = append(subjects, attributes("user", strconv.Itoa(i), "path", "/"+strconv.Itoa(i%ruleCount)))
	}
	before := heap()
	now, requests := start, uint64(0)
	recorder := traffic.NewRecorder(traffic.RecorderOptions{
		Counters: func() iter.Seq[traffic.Row] {
			return func(yield func(traffic.Row) bool) {
				for _, r := range set.Rules() {
					if !yield(traffic.Row{Rule: r.ID, Counts: traffic.Counts{Requests: requests}}) {
						return
					}
				}
			}
		},
		Sink: func(*traffic.Report) {}, Started: start, Now: func() time.Time { return now },
	})
	recorder.SetRules(set.Rules())
	e, err := engine.New(engine.Config{Rules: set, Store: store, Observe: recorder.Observe})
	if err != nil {
		t.Fatal(err)
	}
	var v engine.Verdict
	for second := range 60 * minutes {
		requests++
		for range 1 + second%2 {
			for _, subject := range subjects {
				if err := e.Decide(t.Context(), subject, &v); err != nil {
					t.Fatal(err)
				}
			}
		}
		now = now.Add(time.Second)
		recorder.Tick(now)
	}
	if got := int(heap() - before); got > bound {
		t.Errorf("got %d bytes, want at most %d", got, bound)
	}
	if sample := recorder.Sample("rule-7", start, now); sample.OneIn > 64 {
		t.Errorf("got a sample of one client in %d, want one in at most 64", sample.OneIn)
	}
}

// rulesByPath returns rules with a path and a limit each.
func rulesByPath(t *testing.T, count int, limit string) *match.Set {
	t.Helper()
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range count {
		fmt.Fprintf(&text, "- { id: rule-%d, when: { path: /%d }, key: user, limits: %s }\n", i, i, limit)
	}
	doc, err := file.Parse("rules.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
