package memstore

import (
	"slices"
	"testing"
	"time"
)

func TestZZGrowth(t *testing.T) {
	s := newStore(t, Options{})
	b := bind(t, s, "1000/h")
	const n = 4_000_000
	lat := make([]int32, n)
	buf := make([]byte, 0, 32)
	_ = buf
	keys := make([]string, 1000)
	for base := 0; base < n; base += 1000 {
		for i := range keys {
			keys[i] = key(base + i)
		}
		for i, k := range keys {
			st := time.Now()
			b.Allow(k)
			lat[base+i] = int32(time.Since(st))
		}
	}
	slices.Sort(lat)
	t.Logf("p50 %d p99 %d p99.9 %d p99.99 %d max %d", lat[n/2], lat[n*99/100], lat[n/1000*999], lat[n/10000*9999], lat[n-1])
}
