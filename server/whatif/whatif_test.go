package whatif_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/accesslogs"
	"github.com/headgate/headgate/server/whatif"
)

var start = time.Unix(1_800_000_000, 0)

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

// A request of the traffic of a test.
type request struct {
	at   time.Time
	user string
}

// burstyTraffic returns requests of clients with different rates, which come in bursts.
func burstyTraffic(seed uint64, clients int, window time.Duration) []request {
	random := rand.New(rand.NewPCG(seed, 1))
	var list []request
	for c := range clients {
		rate := 8 / math.Pow(float64(c+1), 0.7) // bursts a second
		for at := random.ExpFloat64() / rate; at < window.Seconds(); at += random.ExpFloat64() / rate {
			for range 1 + random.IntN(4) {
				when := at + random.Float64()/20
				list = append(list, request{start.Add(time.Duration(when*1e6) * time.Microsecond), fmt.Sprintf("user-%d", c)})
			}
		}
	}
	slices.SortFunc(list, func(a, b request) int { return a.at.Compare(b.at) })
	return list
}

// enforce decides requests with the real engine, and returns how many are denied, and how many clients are affected.
func enforce(t *testing.T, set *match.Set, list []request) (denied, affected int64) {
	t.Helper()
	now := limittest.NewClock()
	now.Set(start)
	store, err := memstore.New(memstore.Options{Now: now.Now, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	e, err := engine.New(engine.Config{Rules: set, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	clients := map[string]bool{}
	var v engine.Verdict
	for _, r := range list {
		now.Set(r.at)
		subject := rules.Attributes{{Kind: headgate.AttrUser}: r.user}
		if err := e.Decide(context.Background(), subject, &v); err != nil {
			t.Fatal(err)
		}
		if !v.Action.Passes() {
			denied++
			clients[r.user] = true
		}
	}
	return denied, int64(len(clients))
}

// readLog returns the traffic of requests, written as a log.
func readLog(t *testing.T, set *match.Set, list []request, maxEvents int) *whatif.Traffic {
	t.Helper()
	var b strings.Builder
	b.WriteString("time,user\n")
	for _, r := range list {
		fmt.Fprintf(&b, "%d,%s\n", r.at.UnixMicro(), r.user)
	}
	logs, err := accesslogs.NewReader(strings.NewReader(b.String()), accesslogs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.New(identity.Config{})
	if err != nil {
		t.Fatal(err)
	}
	byRule, err := whatif.ReadLog(t.Context(), logs, whatif.LogOptions{Set: set, Identifier: id, MaxEvents: maxEvents})
	if err != nil {
		t.Fatal(err)
	}
	return byRule["a"]
}

func run(t *testing.T, traffic *whatif.Traffic, p whatif.Proposal) *whatif.Result {
	t.Helper()
	r, err := whatif.Run(t.Context(), traffic, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReplayDeniesWhatTheEngineDenies(t *testing.T) {
	list := burstyTraffic(1, 100, 40*time.Second)
	for _, rule := range []string{
		"limits: 2/s burst 4", "limits: [3/s, 40/m sliding-window]", "limits: 40/m fixed-window",
		"limits: 30/m sliding-log", "limits: 30/m sliding-buckets", "limits: 2/s leaky-bucket", "limits: 2/s gcra",
		"limits: 5/s, cost: 2", "limits: 2/s, count_rejected: true", "limits: 2/s, on_limit: shadow",
		"limits: 1/s, overrides: [{ when: { user: user-0 }, limits: 20/s }, { when: { user: user-1 }, unlimited: true }," +
			" { when: { user: user-2 }, block: true }]",
	} {
		set := compile(t, "rules: [{ id: a, key: user, "+rule+" }]")
		enforced := compile(t, "rules: [{ id: a, key: user, "+strings.ReplaceAll(rule, ", on_limit: shadow", "")+" }]")
		denied, affected := enforce(t, enforced, list)
		got := run(t, readLog(t, set, list, 0), whatif.Proposal{Set: set, Rule: "a"})
		if diff := math.Abs(float64(got.Denied.Value - denied)); diff > 0.02*float64(denied) || denied == 0 {
			t.Errorf("%s: got %d denied of %d, want %d", rule, got.Denied.Value, got.Requests.Value, denied)
		}
		if got.Affected.Value != affected || got.Affected.Low != affected || got.SampledOneIn != 1 {
			t.Errorf("%s: got %+v clients affected, want %d", rule, got.Affected, affected)
		}
		if got.Requests.Value != int64(len(list)) || got.Clients.Value != 100 {
			t.Errorf("%s: got %d requests of %d clients, want %d of 100", rule, got.Requests.Value, got.Clients.Value, len(list))
		}
	}
}

func TestCurveFindsTheLimitThatFewClientsNotice(t *testing.T) {
	list := burstyTraffic(3, 400, 2*time.Minute)
	set := compile(t, `rules: [{ id: a, key: user, limits: 2/s burst 6 }]`)
	got := run(t, readLog(t, set, list, 0), whatif.Proposal{
		Set: set, Rule: "a", Current: compile(t, `rules: [{ id: a, key: user, limits: 1/s }]`),
	})
	if len(got.Curve) < 8 || !slices.IsSortedFunc(got.Curve, func(a, b whatif.Point) int { return int(a.Count - b.Count) }) {
		t.Fatalf("got the curve %+v", got.Curve)
	}
	for i := 1; i < len(got.Curve); i++ {
		if got.Curve[i].Denied.Value > got.Curve[i-1].Denied.Value {
			t.Errorf("%s denies %d, more than %s", got.Curve[i].Limit, got.Curve[i].Denied.Value, got.Curve[i-1].Limit)
		}
	}
	p := got.Unaffected99
	if p == nil || p.Unaffected < 0.99 {
		t.Fatalf("got %+v, want a limit that 99 %% of the clients do not notice", p)
	}
	lower := fmt.Sprintf(`rules: [{ id: a, key: user, limits: %d/s burst %d }]`, p.Count-1, 3*(p.Count-1))
	if _, affected := enforce(t, compile(t, lower), list); float64(affected) <= 0.01*400 {
		t.Errorf("%s: got %d clients affected one below, want more than 1 %%", p.Limit, affected)
	}
	if got.Current == nil || got.Current.Denied.Value <= got.Denied.Value || got.Current.Limits[0] != "1/s" {
		t.Errorf("got %+v, want more denials under the lower limit in force", got.Current)
	}
	if len(got.Top) != 20 || got.Top[0].Denied < got.Top[19].Denied || got.Top[0].Client.(map[string]string)["user"] == "" {
		t.Errorf("got %+v", got.Top)
	}
}

func TestCurveLimitIsTheIndexInTheLimitsOfTheRule(t *testing.T) {
	set := compile(t, `rules: [{ id: a, key: user, limits: [100/s, 10 concurrent, 1/s] }]`)
	got := run(t, readLog(t, set, burstyTraffic(4, 100, 30*time.Second), 0), whatif.Proposal{Set: set, Rule: "a"})
	if got.CurveLimit != 2 || got.Limits[got.CurveLimit] != "1/s" {
		t.Errorf("got the index %d of the limits %q, want 2", got.CurveLimit, got.Limits)
	}
}

func TestLargeLogsAreSampled(t *testing.T) {
	list := burstyTraffic(4, 2000, time.Minute)
	set := compile(t, `rules: [{ id: a, key: user, limits: 10/m }]`)
	whole := readLog(t, set, list, 0)
	few := readLog(t, set, list, whole.Events()/4)
	if few.OneIn < 4 || few.Events() > whole.Events()/3 {
		t.Errorf("got one in %d, %d of %d events", few.OneIn, few.Events(), whole.Events())
	}
}

func TestTrafficOfNodesIsMerged(t *testing.T) {
	set := compile(t, `rules: [{ id: a, key: user, limits: 3/s burst 6 }]`)
	list := burstyTraffic(5, 50, time.Minute)
	want := run(t, readLog(t, set, list, 0), whatif.Proposal{Set: set, Rule: "a"})
	merged := &whatif.Traffic{OneIn: 1}
	for node := range 2 {
		part := &whatif.Traffic{OneIn: 1, From: start, To: start.Add(time.Minute)}
		byUser := map[string]*whatif.Client{}
		for i, r := range list {
			if i%2 != node {
				continue
			}
			c := byUser[r.user]
			if c == nil {
				var key uint64
				if _, err := fmt.Sscanf(r.user, "user-%d", &key); err != nil {
					t.Fatal(err)
				}
				c = &whatif.Client{Key: key, Subject: rules.Attributes{{Kind: headgate.AttrUser}: r.user}, Name: r.user}
				byUser[r.user] = c
				part.Clients = append(part.Clients, c)
			}
			c.Events = append(c.Events, whatif.Event{At: r.at.UnixMicro(), Count: 1, Cost: 1})
		}
		merged.Merge(part)
	}
	if got := run(t, merged, whatif.Proposal{Set: set, Rule: "a"}); got.Denied != want.Denied || got.Affected != want.Affected {
		t.Errorf("got %+v, want %+v", got.Denied, want.Denied)
	}
}

func TestInterruptedRunKeepsItsResult(t *testing.T) {
	set := compile(t, `rules: [{ id: a, key: user, limits: 1/s }]`)
	traffic := readLog(t, set, burstyTraffic(6, 50, time.Minute), 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := whatif.Run(ctx, traffic, whatif.Proposal{Set: set, Rule: "a"}, func(done, _ int) {
		if done == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || r == nil || !r.Partial || r.Denied.Value == 0 || len(r.Curve) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
}
