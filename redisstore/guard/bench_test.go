package guard

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// callers make b.N decisions concurrently, and report percentiles of their durations.
func callers(b *testing.B, n int, decide func()) {
	b.Helper()
	b.ReportAllocs()
	const most = 20_000 // times kept by each
	times := make([][]time.Duration, n)
	for i := range times {
		times[i] = make([]time.Duration, 0, min(most, b.N/n+1))
	}
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			for range b.N/n + 1 {
				began := time.Now()
				decide()
				if len(times[i]) < most {
					times[i] = append(times[i], time.Since(began))
				}
			}
		})
	}
	b.ResetTimer()
	close(start)
	all.Wait()
	b.StopTimer()
	sorted := slices.Concat(times...)
	slices.Sort(sorted)
	b.ReportMetric(float64(sorted[len(sorted)/2]), "p50-ns")
	b.ReportMetric(float64(sorted[len(sorted)*99/100]), "p99-ns")
	b.ReportMetric(float64(sorted[len(sorted)*999/1000]), "p999-ns")
}

// BenchmarkDenial measures a client that ignores denials: the bar for its p99 is 5 µs.
func BenchmarkDenial(b *testing.B) {
	for _, bb := range []struct {
		name  string
		limit string
		all   bool
		n     int
	}{
		{"alone", "1/h", false, 1},
		{"1000 callers", "1/h", false, 1000},
		{"1000 callers, sliding-window", "1/h sliding-window", false, 1000},
		{"1000 callers, TakeAll", "1/h", true, 1000},
	} {
		b.Run(bb.name, func(b *testing.B) {
			f := newFake(b, nil)
			g := newGuard(b, f, Options{})
			ctx, c := context.Background(), check("search/alice", bb.limit)
			all := []headgate.Check{check("search/all", "1000000/s"), c}
			take(b, g, c)
			take(b, g, c)
			callers(b, bb.n, func() {
				if bb.all {
					var few [2]headgate.Decision
					_, _ = g.TakeAll(ctx, all, few[:0])
					return
				}
				_, _ = g.Take(ctx, c)
			})
			b.ReportMetric(float64(f.calls.Load()), "calls")
		})
	}
}

// BenchmarkAllowed measures what the guard adds to a call of a store that responds at once.
func BenchmarkAllowed(b *testing.B) {
	ctx, c := context.Background(), check("search/alice", "1000000000/s")
	f := newFake(b, nil)
	g := newGuard(b, f.store, Options{})
	off := newGuard(b, f.store, Options{DenyCache: -1})
	for _, bb := range []struct {
		name string
		l    headgate.Limiter
	}{{"store", f.store}, {"guard", g}, {"guard without deny cache", off}} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = bb.l.Take(ctx, c)
			}
		})
	}
}

// BenchmarkDegraded is a decision while the circuit is open.
func BenchmarkDegraded(b *testing.B) {
	for _, p := range []headgate.Policy{headgate.Open, headgate.Closed, headgate.Local} {
		b.Run(p.String(), func(b *testing.B) {
			f := newFake(b, nil)
			g := newGuard(b, f, Options{})
			goDown(b, g, f, "a")
			f.breaks("a", fault{hangs: true})
			ctx, c := context.Background(), under(check("a/1", "1000000000/s"), p)
			b.ReportAllocs()
			for b.Loop() {
				_, _ = g.Take(ctx, c)
			}
		})
	}
}
