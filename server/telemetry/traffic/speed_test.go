//go:build !race

package traffic_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/telemetry/traffic"
)

func TestRecordingAllocatesNothing(t *testing.T) {
	for name, text := range map[string]string{
		"one rule": `rules: [{ id: a, key: user, limits: 100000/s }]`,
		"denied":   `rules: [{ id: a, key: user, limits: 1/h }]`,
		"blocked":  `rules: [{ id: a, key: user, limits: 1/h, overrides: [{ when: { path: / }, block: true }] }]`,
		"shadow":   `rules: [{ id: a, key: user, limits: 1/h, on_limit: shadow }, { id: b, limits: 100000/s }]`,
	} {
		r := newRig(t, text, traffic.Clear)
		r.send(3, attributes("user", "a"))
		r.tick()
		verdicts := make([]engine.Verdict, 3000)
		for i := range verdicts {
			subject := attributes("user", fmt.Sprintf("client-%d", i), "path", "/")
			if err := r.engine.Decide(context.Background(), subject, &verdicts[i]); err != nil {
				t.Fatal(err)
			}
		}
		next := 0
		if n := testing.AllocsPerRun(len(verdicts)-1, func() { r.recorder.Observe(&verdicts[next]); next++ }); n != 0 {
			t.Errorf("%s: got %v allocations, want none", name, n)
		}
	}
}

// BenchmarkObserve measures the cost of a decision's statistics alone, with and without samples of requests. Clients
// are few, or more than the tables have.
func BenchmarkObserve(b *testing.B) {
	for _, clients := range []int{16, 1 << 14} {
		for _, sampleBytes := range []int{-1, 0} {
			b.Run(fmt.Sprintf("clients=%d/samples=%v", clients, sampleBytes == 0), func(b *testing.B) {
				r := newRigWith(b, `rules: [{ id: a, key: user, limits: 10000000/s }]`, traffic.Clear, sampleBytes)
				r.send(3, attributes("user", "a"))
				r.tick()
				verdicts := make([]engine.Verdict, clients)
				for i := range verdicts {
					subject := attributes("user", fmt.Sprintf("client-%d", i))
					if err := r.engine.Decide(b.Context(), subject, &verdicts[i]); err != nil {
						b.Fatal(err)
					}
					verdicts[i].Duration = 0
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					r.recorder.Observe(&verdicts[i&(clients-1)])
				}
			})
		}
	}
}

// BenchmarkDecision measures what the statistics add to a decision: with metrics only, and with a Recorder, for one client
// and for Zipf traffic of many.
func BenchmarkDecision(b *testing.B) {
	for _, clients := range []int{1, 1000, 1_000_000} {
		subjects := make([]rules.Attributes, 1<<14)
		next := func() uint64 { return 0 }
		if clients > 1 {
			next = rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.001, 1, uint64(clients)).Uint64
		}
		for i := range subjects {
			subjects[i] = attributes("user", fmt.Sprintf("client-%d", next()))
		}
		for _, statistics := range []bool{false, true} {
			b.Run(fmt.Sprintf("clients=%d/statistics=%v", clients, statistics), func(b *testing.B) {
				r := newRig(b, `rules: [{ id: a, key: user, limits: 10000000/s }]`, traffic.Clear)
				r.send(3, attributes("user", "a"))
				r.tick()
				if !statistics {
					r.metrics.Record(nil)
				}
				var v engine.Verdict
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if err := r.engine.Decide(b.Context(), subjects[i&(len(subjects)-1)], &v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
