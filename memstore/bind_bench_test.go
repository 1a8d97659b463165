package memstore

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// BenchmarkAllowThroughBind compares headgate.Bound with the store's own form of a limit, which it calls. Rounds of both
// alternate, so that a busy machine slows both; the metric is the median of the rounds' ratios.
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
			const calls = 20_000
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
			var ratios []float64
			b.ReportAllocs()
			for b.Loop() {
				before := round(directRound)
				through := round(boundRound)
				after := round(directRound)
				ratios = append(ratios, 2*float64(through)/float64(before+after))
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "bind/direct")
		})
	}
}
