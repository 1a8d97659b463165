package whatif_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/limittest"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/telemetry/traffic"
	"github.com/headgate/headgate/server/whatif"
)

// record sends requests to nodes in turn, and returns their samples.
func record(t *testing.T, set *match.Set, list []request, nodes, sampleBytes int) []*traffic.Sample {
	t.Helper()
	now := limittest.NewClock()
	now.Set(start)
	clock := now.Now
	store, err := memstore.New(memstore.Options{Now: clock, MaxBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	recorders := make([]*traffic.Recorder, nodes)
	engines := make([]*engine.Engine, nodes)
	for i := range recorders {
		recorders[i] = traffic.NewRecorder(traffic.RecorderOptions{
			Counters: func() iter.Seq[traffic.Row] { return func(func(traffic.Row) bool) {} },
			Sink:     func(*traffic.Report) {}, Started: start, SampleBytes: sampleBytes, Now: clock,
			Namer: traffic.NewNamer(traffic.Clear, []byte("secret of the fleet")),
		})
		recorders[i].SetRules(set.Rules())
		if engines[i], err = engine.New(engine.Config{Rules: set, Store: store, Observe: recorders[i].Observe}); err != nil {
			t.Fatal(err)
		}
	}
	next := start.Add(time.Second)
	tick := func() {
		for _, r := range recorders {
			r.Tick(next)
		}
		next = next.Add(time.Second)
	}
	var v engine.Verdict
	for i, r := range list {
		for r.at.After(next) {
			tick()
		}
		now.Set(r.at)
		subject := rules.Attributes{{Kind: headgate.AttrUser}: r.user}
		if err := engines[i%nodes].Decide(context.Background(), subject, &v); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		tick()
	}
	samples := make([]*traffic.Sample, nodes)
	for i, r := range recorders {
		sample := r.Sample("a", start, next)
		data, err := json.Marshal(sample)
		if err != nil || sample == nil {
			t.Fatalf("got %v, %v", sample, err)
		}
		if err := json.Unmarshal(data, &samples[i]); err != nil {
			t.Fatal(err)
		}
	}
	return samples
}

func TestRecordedTrafficReplaysWithinTwoPercent(t *testing.T) {
	inForce := compile(t, `rules: [{ id: a, key: user, limits: 1000/s }]`)
	proposed := compile(t, `rules: [{ id: a, key: user, limits: 2/s burst 5 }]`)
	list := burstyTraffic(11, 150, 100*time.Second)
	denied, affected := enforce(t, proposed, list)
	got := run(t, whatif.FromSamples(record(t, inForce, list, 3, 0)), whatif.Proposal{Set: proposed, Rule: "a"})
	if diff := math.Abs(float64(got.Denied.Value - denied)); diff > 0.02*float64(denied) || got.SampledOneIn != 1 {
		t.Errorf("got %+v denied, one in %d, want %d", got.Denied, got.SampledOneIn, denied)
	}
	if got.Affected.Value != affected || got.Requests.Value != int64(len(list)) {
		t.Errorf("got %d clients affected, %d requests; want %d, %d", got.Affected.Value, got.Requests.Value, affected, len(list))
	}
}

// 3,000 requests a second are sampled as one client in 4, because a node samples at most 1,024.
func TestBusyNodesSampleAsManyClientsAsFit(t *testing.T) {
	inForce := compile(t, `rules: [{ id: a, key: user, limits: 1000/s }]`)
	var list []request
	for i := range 30_000 {
		list = append(list, request{start.Add(time.Duration(i) * time.Second / 3000), fmt.Sprint(i % 3000)})
	}
	sample := record(t, inForce, list, 1, 0)[0]
	if n := len(sample.Clients); sample.OneIn != 4 || n < 600 || n > 900 {
		t.Errorf("got one in %d, %d clients; want one in 4, about 750", sample.OneIn, n)
	}
}
