//go:build !race

package traffic_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
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

// BenchmarkObserve measures the cost of a decision's statistics alone: without clients, with their counts, and with
// samples of their requests, too. Clients are few, or more than the tables have. The verdicts of many clients do not fit
// into a cache: the cost of reading them shows as that without clients.
func BenchmarkObserve(b *testing.B) {
	for _, clients := range []int{16, 1 << 14} {
		for _, kind := range []struct {
			name        string
			names       traffic.NameMode
			sampleBytes int
		}{{"off", traffic.Off, -1}, {"counts", traffic.Clear, -1}, {"counts+samples", traffic.Clear, 0}} {
			b.Run(fmt.Sprintf("clients=%d/%s", clients, kind.name), func(b *testing.B) {
				r := newRigWith(b, `rules: [{ id: a, key: user, limits: 10000000/s }]`, kind.names, kind.sampleBytes)
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

// BenchmarkStatistics measures what statistics add to a decision with metrics, for one client, for Zipf traffic, and for
// many clients with equal traffic. Decisions with and without statistics alternate in short blocks, so that other load on
// the host slows both. It reports the difference of the medians of the blocks. With a high rate, one request in 4 is
// counted for its client.
func BenchmarkStatistics(b *testing.B) {
	const block = 512
	for _, clients := range []struct {
		name string
		next func() uint64
	}{
		{"one", func() uint64 { return 0 }},
		{"zipf-1000", rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.001, 1, 1000).Uint64},
		{"zipf-1000000", rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.001, 1, 1_000_000).Uint64},
		{"equal-16384", func() uint64 { return rand.Uint64N(16384) }},
	} {
		measure := func(b *testing.B, rate int) {
			subjects := make([]rules.Subject, 1<<14)
			for i := range subjects {
				subjects[i] = oneUser(fmt.Sprintf("client-%d", clients.next()))
			}
			r := newRig(b, `rules: [{ id: a, key: user, limits: 10000000/s }]`, traffic.Clear)
			r.send(3, attributes("user", "a"))
			r.tick()
			r.send(rate, attributes("user", "a"))
			r.tick()
			var v engine.Verdict
			var took [2][]time.Duration
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%block != 0 {
					continue
				}
				first := rand.IntN(2) // the second pass finds the counters of its clients in the cache
				for _, k := range []int{first, 1 - first} {
					r.metrics.Record([]*traffic.Recorder{nil, r.recorder}[k])
					start := time.Now()
					for j := range block {
						if err := r.engine.Decide(b.Context(), subjects[(i+j)&(len(subjects)-1)], &v); err != nil {
							b.Fatal(err)
						}
					}
					took[k] = append(took[k], time.Since(start))
				}
			}
			off, on := median(took[0]), median(took[1])
			b.ReportMetric(float64(off.Nanoseconds())/block, "off-ns")
			b.ReportMetric(float64(on.Nanoseconds())/block, "on-ns")
			b.ReportMetric(float64((on-off).Nanoseconds())/block, "statistics-ns")
		}
		b.Run("clients="+clients.name+"/rate=low", func(b *testing.B) { measure(b, 3) })
		b.Run("clients="+clients.name+"/rate=high", func(b *testing.B) { measure(b, 51_000) })
	}
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// oneUser is a Subject with a user only.
type oneUser string

// Get returns the value of an attribute.
func (u oneUser) Get(a headgate.Attribute) (string, bool) {
	return string(u), a.Kind == headgate.AttrUser
}
