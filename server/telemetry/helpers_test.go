package telemetry_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/telemetry"
)

func compile(t testing.TB, text string) *match.Set {
	t.Helper()
	doc, err := file.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func memory(t testing.TB) *memstore.Store {
	t.Helper()
	s, err := memstore.New(memstore.Options{MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests do so before
	return s
}

// A rig is an engine whose verdicts are counted.
type rig struct {
	t       testing.TB
	engine  *engine.Engine
	metrics *telemetry.Metrics
	shared  bool
	loads   uint64
}

func newRig(t testing.TB, text string, store headgate.Limiter, shared bool) *rig {
	t.Helper()
	r := &rig{t: t, metrics: telemetry.New("test"), shared: shared}
	var err error
	r.engine, err = engine.New(engine.Config{
		Rules: compile(t, text), Store: store, Local: memory(t), Shared: shared, Observe: r.metrics.Observe, OnError: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.inForce()
	return r
}

func (r *rig) inForce() {
	r.loads++
	r.metrics.SetRules(telemetry.RuleLoad{
		Set: r.engine.Rules(), Shared: r.shared, Revision: r.loads, Loaded: time.Unix(1_800_000_000, 0),
	})
}

// swap puts other rules in force, as a node does.
func (r *rig) swap(text string) {
	r.t.Helper()
	set := compile(r.t, text)
	r.metrics.ExpectRules(set, r.shared)
	if err := r.engine.SetRules(set); err != nil {
		r.t.Fatal(err)
	}
	r.inForce()
}

// ask decides a request, as often as times says.
func (r *rig) ask(times int, attributes ...string) {
	r.t.Helper()
	subject := rules.Attributes{}
	for i := 0; i < len(attributes); i += 2 {
		a, err := headgate.ParseAttribute(attributes[i])
		if err != nil {
			r.t.Fatal(err)
		}
		subject[a] = attributes[i+1]
	}
	for range times {
		var v engine.Verdict
		if err := r.engine.Decide(context.Background(), subject, &v); err != nil {
			r.t.Fatal(err)
		}
		if err := v.Settle(context.Background(), func(string) string { return "" }); err != nil {
			r.t.Fatal(err)
		}
	}
}

// scrape returns what is exposed, one series a line, without comments.
func scrape(t testing.TB, m *telemetry.Metrics) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK {
		t.Fatalf("scrape: got %d %s", w.Code, w.Body)
	}
	series := make(map[string]string)
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			at := strings.LastIndexByte(line, ' ')
			series[line[:at]] = line[at+1:]
		}
	}
	return series
}

func expect(t testing.TB, got map[string]string, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: got %q, want %q", name, got[name], value)
		}
	}
}
