package decisionlog_test

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
	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/telemetry/traffic/decisionlog"
)

var namer = traffic.NewNamer(traffic.Clear, []byte("a secret"))

// A rig is an engine whose decisions are logged, in virtual time.
type rig struct {
	t      *testing.T
	log    *decisionlog.Log
	engine *engine.Engine
	now    time.Time
}

func newRig(t *testing.T, text string, o decisionlog.Options) *rig {
	t.Helper()
	doc, err := file.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		t.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{MaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := &rig{t: t, now: time.Unix(1_800_000_000, 0)}
	o.Namer, o.Node, o.Now = namer, "a", func() time.Time { return r.now }
	r.log = decisionlog.New(o)
	if r.engine, err = engine.New(engine.Config{Rules: set, Store: store, Observe: r.log.Observe}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) send(n int, pairs ...string) {
	r.t.Helper()
	subject := rules.Attributes{}
	for i := 0; i < len(pairs); i += 2 {
		a, err := headgate.ParseAttribute(pairs[i])
		if err != nil {
			r.t.Fatal(err)
		}
		subject[a] = pairs[i+1]
	}
	var v engine.Verdict
	for range n {
		if err := r.engine.Decide(context.Background(), subject, &v); err != nil {
			r.t.Fatal(err)
		}
		r.now = r.now.Add(time.Millisecond)
	}
}

// found returns decisions as text, the latest first.
func (r *rig) found(q traffic.DecisionsQuery) string {
	if q.Limit == 0 {
		q.Limit = 100
	}
	var lines []string
	for _, d := range r.log.Find(q) {
		lines = append(lines, fmt.Sprintf("%s %s %s %s left=%d", d.Client, d.Rule, d.Verdict, d.Limit, d.Remaining))
	}
	return strings.Join(lines, "\n")
}

const twoRules = `rules:
  - { id: per-user, key: user, limits: 2/h }
  - { id: try, key: ip, limits: 1/h, on_limit: shadow }
  - { id: closed, key: api_key, when: { path: /closed }, limits: 1/h, overrides: [{ when: { path: /closed }, block: true }] }`

func TestLastDecisionsOfAClientAreFound(t *testing.T) {
	r := newRig(t, twoRules, decisionlog.Options{})
	r.send(3, "user", "noisy", "ip", "192.0.2.1", "api_key", "k")
	r.send(1, "user", "calm", "ip", "192.0.2.2", "api_key", "k")
	for _, c := range []struct {
		q    traffic.DecisionsQuery
		want string
	}{
		{traffic.DecisionsQuery{Client: map[string]string{"user": "noisy"}}, `{"user":"noisy"} per-user reject 2/h left=0
{"user":"noisy"} per-user allow 2/h left=0
{"user":"noisy"} per-user allow 2/h left=1`},
		{traffic.DecisionsQuery{Client: map[string]string{"user": "noisy"}, Denied: true}, `{"user":"noisy"} per-user reject 2/h left=0`},
		{traffic.DecisionsQuery{Client: map[string]string{"user": "calm", "ip": "192.0.2.2"}}, `{"ip":"192.0.2.2"} try allow 1/h left=0
{"user":"calm"} per-user allow 2/h left=1`},
		{traffic.DecisionsQuery{Rule: "try", Denied: true, Limit: 1}, `{"ip":"192.0.2.1"} try shadow 1/h left=0`},
		{traffic.DecisionsQuery{Client: map[string]string{"user": "other"}}, ""},
	} {
		if got := r.found(c.q); got != c.want {
			t.Errorf("%+v: got\n%s\nwant\n%s", c.q, got, c.want)
		}
	}
	r.log.Erase(namer.Erased(map[string]string{"user": "noisy"}))
	if got := r.found(traffic.DecisionsQuery{Rule: "per-user"}); got != `{"user":"calm"} per-user allow 2/h left=1` {
		t.Errorf("after erasing: got %s", got)
	}
}

func TestSecretsAreLoggedAsHashes(t *testing.T) {
	secret := "sk_live_0123456789abcdef"
	r := newRig(t, twoRules, decisionlog.Options{})
	r.send(1, "api_key", secret, "path", "/closed", "user", "a", "ip", "192.0.2.1")
	kept := map[string]string{"api_key": namer.Kept("api_key", secret)}
	want := fmt.Sprintf(`{"api_key":%q} closed block  left=0`, kept["api_key"])
	if got := r.found(traffic.DecisionsQuery{Client: kept}); got != want || strings.Contains(got, secret) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestALongNameIsCutAndGetsAHash(t *testing.T) {
	r := newRig(t, twoRules, decisionlog.Options{})
	r.send(1, "user", strings.Repeat("x", 120), "ip", "192.0.2.1")
	got := r.found(traffic.DecisionsQuery{Rule: "per-user"})
	if !strings.HasPrefix(got, `{"user":"…#`) {
		t.Errorf("got %s, want a hash", got)
	}
}

func TestDenialsStayWhileOthersPass(t *testing.T) {
	r := newRig(t, twoRules, decisionlog.Options{Size: 10, PerSecond: 1000})
	r.send(3, "user", "noisy", "ip", "192.0.2.1")
	for i := range 50 {
		r.send(1, "user", fmt.Sprint("user-", i), "ip", fmt.Sprint("198.51.100.", i))
	}
	got := r.found(traffic.DecisionsQuery{Client: map[string]string{"user": "noisy"}, Denied: true})
	if got != `{"user":"noisy"} per-user reject 2/h left=0` {
		t.Errorf("got %q, want the denial", got)
	}
	if list := r.log.Find(traffic.DecisionsQuery{Limit: 100, Rule: "per-user"}); len(list) > 20 {
		t.Errorf("got %d decisions, want no more than the size of both rings", len(list))
	}
}

func TestBusySecondsAreSampled(t *testing.T) {
	r := newRig(t, `rules: [{ id: a, key: user, limits: 1000000/s }]`, decisionlog.Options{PerSecond: 10})
	r.send(40, "user", "a")
	if n := len(r.log.Find(traffic.DecisionsQuery{Limit: 100})); n != 10 {
		t.Errorf("first second: got %d decisions, want 10", n)
	}
	r.log.Tick()
	r.send(2000, "user", "b")
	list := r.log.Find(traffic.DecisionsQuery{Limit: 100, Client: map[string]string{"user": "b"}})
	if len(list) != 10 || list[0].OneIn != 2 {
		t.Errorf("second second: got %d decisions, one in %d; want 10, one in 2", len(list), list[0].OneIn)
	}
	for range 3 {
		r.log.Tick() // the first tick ends a busy second
	}
	r.send(1, "user", "c")
	list = r.log.Find(traffic.DecisionsQuery{Limit: 100, Client: map[string]string{"user": "c"}})
	if len(list) != 1 || list[0].OneIn != 0 {
		t.Errorf("quiet again: got %+v, want one decision of all", list)
	}
}

func TestLoggingAllocatesNothing(t *testing.T) {
	r := newRig(t, twoRules, decisionlog.Options{PerSecond: 1 << 20, Size: 128})
	subject := rules.Attributes{{Kind: headgate.AttrUser}: strings.Repeat("x", 200), {Kind: headgate.AttrIP}: "192.0.2.1"}
	var v engine.Verdict
	if err := r.engine.Decide(t.Context(), subject, &v); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { r.log.Observe(&v) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

// BenchmarkObserve measures a decision beyond those that are recorded.
func BenchmarkObserve(b *testing.B) {
	l := decisionlog.New(decisionlog.Options{Namer: namer})
	doc, err := file.Parse("rules.yaml", []byte(`rules: [{ id: a, key: user, limits: 1000000/s }]`))
	if err != nil {
		b.Fatal(err)
	}
	set, err := doc.Compile()
	if err != nil {
		b.Fatal(err)
	}
	store, err := memstore.New(memstore.Options{MaxBytes: 16 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		b.Fatal(err)
	}
	var v engine.Verdict
	if err := e.Decide(b.Context(), rules.Attributes{{Kind: headgate.AttrUser}: "a"}, &v); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Observe(&v)
	}
}
