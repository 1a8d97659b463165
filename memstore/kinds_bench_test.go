package memstore

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate"
)

// BenchmarkKinds decides one of 100,000 keys after another, by limits of every kind. Limits whose state fits one word are
// beside those that need more.
func BenchmarkKinds(b *testing.B) {
	const keys = 100_000
	for _, bench := range []struct{ name, limit string }{
		{"token-bucket", "1000/s"},
		{"wide token-bucket", "1000000/h"},
		{"wide fixed-window", "1000000/h fixed-window"},
		{"sliding-window", "1000/s sliding-window"},
		{"wide sliding-window", "1000000/h sliding-window"},
		{"sliding-log", "100/h sliding-log"},
		{"sliding-buckets", "1000/m sliding-buckets 12"},
		{"concurrency", "1000 concurrent ttl 1ms"},
	} {
		limit := headgate.MustParseLimit(bench.limit)
		names := make([]string, keys)
		for i, k := range rand.New(rand.NewPCG(1, 2)).Perm(keys) {
			names[i] = key(k)
		}
		b.Run(bench.name+"/allow", func(b *testing.B) {
			s := newStore(b, Options{})
			bound := bind(b, s, bench.limit)
			for _, name := range names {
				bound.Allow(name)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				bound.Allow(names[i%keys])
			}
		})
		b.Run(bench.name+"/take", func(b *testing.B) {
			s := newStore(b, Options{})
			ctx := context.Background()
			check := headgate.Check{Limit: limit, Cost: 1}
			take := func(name string) {
				check.Key = name
				if _, err := s.Take(ctx, check); err != nil {
					b.Fatal(err)
				}
			}
			for _, name := range names {
				take(name)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				take(names[i%keys])
			}
		})
	}
}
