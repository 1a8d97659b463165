package memstore

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// BenchmarkAllowThroughBind compares headgate.Bound with the store's own form of a limit, which it calls. Short rounds of
// both alternate, and the metric compares their quickest, which a busy machine has not interrupted.
func BenchmarkAllowThroughBind(b *testing.B) {
	for name, limit := range map[string]string{"allowed": "1/us", "denied": "1/h"} {
		b.Run(name, func(b *testing.B) {
			s := newStore(b, Options{})
			bound := bind(b, s, limit)
			own, err := s.Prepare(bound.Limit(), headgate.Open)
			if err != nil {
				b.Fatal(err)
			}
			direct := own.(*prepared)
			const calls = 500
			round := func(allow func()) time.Duration {
				start := time.Now()
				allow()
				return time.Since(start)
			}
			directRound := func() {
				for range calls {
					direct.Allow("alice", 1)
				}
			}
			boundRound := func() {
				for range calls {
					bound.Allow("alice")
				}
			}
			quickest, through := time.Hour, time.Hour
			b.ReportAllocs()
			for b.Loop() {
				quickest = min(quickest, round(directRound))
				through = min(through, round(boundRound))
			}
			b.ReportMetric(float64(through)/float64(quickest), "bind/direct")
		})
	}
}
