package traffic_test

import (
	"context"
	"fmt"
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
	"github.com/headgate/headgate/server/telemetry/traffic"
)

// start is the beginning of a minute.
var start = time.Unix(1_800_000_000, 0)

// A rig is an engine whose decisions are recorded, in virtual time.
type rig struct {
	t        testing.TB
	engine   *engine.Engine
	metrics  *telemetry.Metrics
	recorder *traffic.Recorder
	history  *traffic.History
	now      time.Time
}

func newRig(t testing.TB, text string, names traffic.NameMode) *rig {
	t.Helper()
	return newRigWith(t, text, names, 0)
}

// newRigWith returns a rig with a bound for samples, as RecorderOptions has it.
func newRigWith(t testing.TB, text string, names traffic.NameMode, sampleBytes int) *rig {
	t.Helper()
	doc, err := file.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	return newRigOf(t, set, names, sampleBytes)
}

func newRigOf(t testing.TB, set *match.Set, names traffic.NameMode, sampleBytes int) *rig {
	t.Helper()
	namer := traffic.NewNamer(names, []byte("a secret of the fleet"))
	r := &rig{t: t, metrics: telemetry.New("test"), now: start}
	r.history = traffic.NewHistory(traffic.HistoryOptions{Namer: namer})
	r.recorder = traffic.NewRecorder(traffic.RecorderOptions{
		Counters: r.metrics.Traffic, Node: "a", Started: start, Namer: namer, SampleBytes: sampleBytes,
		Sink: func(report *traffic.Report) { r.history.Add(report, r.now) },
	})
	r.metrics.Record(r.recorder)
	store, err := memstore.New(memstore.Options{MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r.engine, err = engine.New(engine.Config{Rules: set, Store: store, Observe: r.metrics.Observe})
	if err != nil {
		t.Fatal(err)
	}
	r.metrics.SetRules(telemetry.RuleLoad{Set: set, Revision: 1, Loaded: start})
	r.tick()
	return r
}

func attributes(pairs ...string) rules.Attributes {
	list := rules.Attributes{}
	for i := 0; i < len(pairs); i += 2 {
		a, err := headgate.ParseAttribute(pairs[i])
		if err != nil {
			panic(err)
		}
		list[a] = pairs[i+1]
	}
	return list
}

// send decides n requests.
func (r *rig) send(n int, s rules.Subject) {
	r.t.Helper()
	var v engine.Verdict
	for range n {
		if err := r.engine.Decide(context.Background(), s, &v); err != nil {
			r.t.Fatal(err)
		}
	}
}

// tick ends the second.
func (r *rig) tick() {
	r.now = r.now.Add(time.Second)
	r.recorder.Tick(r.now)
	if r.now.Unix()%60 == 0 {
		r.history.CloseMinutes(r.now, false)
	}
}

func (r *rig) pass(d time.Duration) {
	for end := r.now.Add(d); r.now.Before(end); {
		r.tick()
	}
}

// clients returns the clients as text.
func (r *rig) clients(q traffic.ClientsQuery) string {
	if q.Window == 0 {
		q.Window, q.Limit = 10*time.Minute, 10
	}
	var list []string
	for _, c := range r.history.Clients(q, r.now).Clients {
		list = append(list, fmt.Sprintf("%s %s %d=%d+%d", c.Client, c.Rule, c.Requests, c.Allowed, c.Denied))
	}
	return strings.Join(list, "; ")
}

const perUser = `rules: [{ id: search, key: user, limits: 5/h }, { id: all, limits: 100000/s }]`

func TestClientsAreNamedWithTheRuleThatDeniesThem(t *testing.T) {
	r := newRig(t, perUser, traffic.Clear)
	r.send(20, attributes("user", "noisy"))
	r.send(2, attributes("user", "good"))
	r.pass(7 * time.Second)
	want := `{"user":"noisy"} search 20=5+15; {} all 22=22+0; {"user":"good"} search 2=2+0`
	if got := r.clients(traffic.ClientsQuery{}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = `{"user":"noisy"} search 20=5+15`
	q := traffic.ClientsQuery{Rule: "search", Window: time.Minute, Limit: 1, Requests: true}
	if got := r.clients(q); got != want {
		t.Errorf("by requests: got %s, want %s", got, want)
	}
	// The minute ends, and the counts of the next one are added.
	r.pass(time.Minute)
	r.send(10, attributes("user", "noisy"))
	r.pass(2 * time.Minute)
	want = `{"user":"noisy"} search 30=5+25`
	q = traffic.ClientsQuery{Window: 10 * time.Minute, Limit: 1, Rule: "search"}
	if got := r.clients(q); got != want {
		t.Errorf("after minutes: got %s, want %s", got, want)
	}
	q.Window = 2 * time.Hour
	if got := r.clients(q); got != want {
		t.Errorf("by the hour: got %s, want %s", got, want)
	}
}

func TestSecretsAreShownAsHashes(t *testing.T) {
	const secret = "sk_live_0123456789abcdef"
	r := newRig(t, `rules: [{ id: keyed, key: api_key, limits: 5/h }]`, traffic.Clear)
	r.send(9, attributes("api_key", secret))
	r.pass(7 * time.Second)
	got := r.clients(traffic.ClientsQuery{})
	if strings.Contains(got, secret) || !strings.Contains(got, `{"api_key":"sk_l…#`) {
		t.Errorf("got %s, want a short form and a hash", got)
	}
	q := traffic.ClientsQuery{Window: time.Minute, Limit: 5, Search: secret}
	if found := r.clients(q); found != got {
		t.Errorf("search for the secret: got %q, want %q", found, got)
	}
	q.Search = secret[:10]
	if found := r.clients(q); found != "" {
		t.Errorf("search for a part of the secret: got %q, want none", found)
	}
	hashed := newRig(t, perUser, traffic.Hash)
	hashed.send(9, attributes("user", "noisy"))
	hashed.pass(7 * time.Second)
	if got := hashed.clients(traffic.ClientsQuery{}); strings.Contains(got, "noisy") || !strings.Contains(got, `{"user":"#`) {
		t.Errorf("clients: hash: got %s, want hashes only", got)
	}
	off := newRig(t, perUser, traffic.Off)
	off.send(9, attributes("user", "noisy"))
	off.pass(7 * time.Second)
	if got := off.clients(traffic.ClientsQuery{}); got != "" {
		t.Errorf("clients: off: got %s, want none", got)
	}
}

func TestClientsOfARemovedRuleAreReported(t *testing.T) {
	r := newRig(t, perUser, traffic.Clear)
	r.send(1, attributes("user", "noisy"))
	r.pass(2 * time.Second) // the rule is active and has a table of its own
	r.send(19, attributes("user", "noisy"))
	doc, err := file.Parse("rules.yaml", []byte(`rules: [{ id: all, limits: 100000/s }]`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	r.metrics.SetRules(telemetry.RuleLoad{Set: set, Revision: 2, Loaded: start})
	for range 2 { // the minute ends in the second one
		r.pass(time.Minute)
		if got, want := r.clients(traffic.ClientsQuery{}), `{"user":"noisy"} search 20=5+15`; !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s first", got, want)
		}
	}
}

func TestValuesThatMayBeSecretAreHidden(t *testing.T) {
	namer := traffic.NewNamer(traffic.Clear, []byte("a secret of the fleet"))
	for attribute, hidden := range map[string]bool{
		"api_key": true, "bearer": true, "cookie.sid": true, "header.x": true, "query.q": true,
		"descriptor.X-API-Key": true, "descriptor.authorization": true, "jwt.session_id": true,
		"user": false, "ip": false, "jwt.sub": false, "descriptor.tenant": false, "segment.2": false,
	} {
		const value = "sk_live_0123456789abcdef"
		if got := namer.Kept(attribute, value); strings.Contains(got, value) == hidden {
			t.Errorf("%s: got %q, want hidden %v", attribute, got, hidden)
		}
	}
}

// A value that is too long for a table is found by its hash.
func TestLongValuesAreFound(t *testing.T) {
	for _, length := range []int{70, 71, 72, 127, 128, 256, 257, 1000} {
		r := newRig(t, perUser, traffic.Clear)
		user := strings.Repeat("u", length)
		r.send(3, attributes("user", user))
		r.pass(7 * time.Second)
		kept := traffic.NewNamer(traffic.Clear, []byte("a secret of the fleet")).Kept("user", user)
		for _, q := range []traffic.ClientsQuery{{Client: map[string]string{"user": kept}}, {Search: user, Searched: []string{kept}}} {
			q.Window, q.Limit = 10*time.Minute, 10
			if got := r.clients(q); !strings.Contains(got, kept) {
				t.Errorf("%d bytes: got %q, want %q", length, got, kept)
			}
		}
	}
}

func TestErasedClientsAreGone(t *testing.T) {
	r := newRig(t, perUser, traffic.Clear)
	r.send(9, attributes("user", "noisy"))
	r.pass(2 * time.Minute)
	r.send(9, attributes("user", "noisy"))
	r.pass(7 * time.Second)
	noisy := traffic.NewNamer(traffic.Clear, []byte("a secret of the fleet")).Erased(map[string]string{"user": "noisy"})
	r.recorder.Erase(noisy)
	if n := r.history.Erase(noisy); n == 0 {
		t.Error("got 0 erased entries")
	}
	r.pass(2 * time.Minute)
	for _, window := range []time.Duration{10 * time.Minute, 24 * time.Hour} {
		if got := r.clients(traffic.ClientsQuery{Window: window, Limit: 10}); strings.Contains(got, "noisy") {
			t.Errorf("%v: got %s, want nothing of the client", window, got)
		}
	}
}

func TestSeriesHaveTheRequestsOfEachSecond(t *testing.T) {
	r := newRig(t, `rules:
  - { id: search, key: user, limits: 5/h }
  - { id: costly, key: user, limits: 1000/s, cost: 3, when: { path: /costly } }
  - { id: trial, key: user, limits: 1/h, on_limit: shadow, when: { path: /trial } }`, traffic.Clear)
	r.send(8, attributes("user", "a"))
	r.tick()
	r.send(2, attributes("user", "b", "path", "/costly"))
	r.send(2, attributes("user", "c", "path", "/trial"))
	r.pass(traffic.Lag)
	s := r.history.Series(traffic.SeriesQuery{Window: 10 * time.Second, Limit: 10}, r.now)
	if s.Step != "1s" || s.Window != "10s" || len(s.Total.Requests) != 10 || !s.Start.Equal(r.now.Add(-12*time.Second)) {
		t.Fatalf("got step %s, window %s, %d points from %v at %v", s.Step, s.Window, len(s.Total.Requests), s.Start, r.now)
	}
	want := "total 8=5+3 shadow 0 cost 8, 4=4+0 shadow 1 cost 8; " +
		"search 8=5+3 shadow 0 cost 8, 4=4+0 shadow 0 cost 4; " +
		"costly 0=0+0 shadow 0 cost 0, 2=2+0 shadow 0 cost 6; " +
		"trial 0=0+0 shadow 0 cost 0, 2=2+0 shadow 1 cost 2"
	if got := ends(s); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	one := r.history.Series(traffic.SeriesQuery{Rule: "costly", Window: 10 * time.Second, Limit: 10}, r.now)
	want = "total 0=0+0 shadow 0 cost 0, 2=2+0 shadow 0 cost 6; costly 0=0+0 shadow 0 cost 0, 2=2+0 shadow 0 cost 6"
	if got := ends(one); got != want {
		t.Errorf("one rule: got %s, want %s", got, want)
	}
	r.pass(5 * time.Minute)
	s = r.history.Series(traffic.SeriesQuery{Window: time.Hour, Limit: 1}, r.now)
	var sum uint64
	for _, n := range s.Rules[0].Requests {
		sum += n
	}
	if s.Step != "1m" || len(s.Total.Requests) != 60 || s.MoreRules != 2 || sum != 12 {
		t.Errorf("an hour: got step %s, %d points, %d more rules, %d requests of %s; want 1m, 60, 2 and 12 of search",
			s.Step, len(s.Total.Requests), s.MoreRules, sum, s.Rules[0].Rule)
	}
}

// ends returns the last two points of each series as text.
func ends(s *traffic.Series) string {
	row := func(name string, c *traffic.Columns) string {
		var points []string
		for i := len(c.Requests) - 2; i < len(c.Requests); i++ {
			points = append(points, fmt.Sprintf("%d=%d+%d shadow %d cost %d", c.Requests[i], c.Allowed[i], c.Denied[i],
				c.ShadowDenied[i], c.Cost[i]))
		}
		return name + " " + strings.Join(points, ", ")
	}
	list := []string{row("total", &s.Total)}
	for i := range s.Rules {
		list = append(list, row(s.Rules[i].Rule, &s.Rules[i].Columns))
	}
	return strings.Join(list, "; ")
}

func TestARepeatedReportAddsNothing(t *testing.T) {
	h := traffic.NewHistory(traffic.HistoryOptions{})
	report := &traffic.Report{
		Node: "a", Started: 1, Minute: start.Unix(),
		Seconds: []traffic.Second{{Unix: start.Unix(), Rows: []traffic.Row{{Counts: traffic.Counts{Requests: 5}}}}},
		Clients: []traffic.ClientCount{{Client: `{"user":"a"}`, Rule: "r", Requests: 5}},
	}
	now := start.Add(traffic.Lag)
	for range 3 {
		h.Add(report, now)
	}
	report.Node = "b"
	h.Add(report, now)
	if got := h.Live("", 10, now).Total.Requests; got != 10 {
		t.Errorf("got %d requests, want 5 of each node", got)
	}
	got := h.Clients(traffic.ClientsQuery{Window: time.Minute, Limit: 10}, now).Clients
	if len(got) != 1 || got[0].Requests != 10 {
		t.Errorf("got %+v, want 5 requests of each node", got)
	}
}
