package memstore

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkAllow decides one key after another by one limit.
func BenchmarkAllow(b *testing.B) {
	for _, bench := range []struct {
		name, limit string
		keys        int
	}{
		{"million keys", "1000/s", 1_000_000},
		{"million windows", "50000/s fixed-window", 1_000_000},
		{"hot key", "1/us", 1},
		{"hot key denied", "1/h", 1},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := newStore(b, Options{})
			bound := bind(b, s, bench.limit)
			names := make([]string, bench.keys)
			for i, k := range rand.New(rand.NewPCG(1, 2)).Perm(bench.keys) {
				names[i] = key(k)
				bound.Allow(names[i])
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i == len(names) {
					i = 0
				}
				bound.Allow(names[i])
			}
		})
	}
}
