package algorithm_test

import (
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate"
)

// fuzz compares an algorithm with its oracle on histories that the fuzzer writes: a limit, whether the clock may go
// back, and then steps.
func fuzz(f *testing.F, a headgate.Algorithm) {
	for i := range 20 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		data := make([]byte, 200)
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		from := tape(data[:min(len(data), 1000)])
		l := drawLimit(&from, a)
		if from.upTo(1) == 0 {
			agree(t, &from, l)
			return
		}
		h, err := newHistory(&from, l)
		if err != nil {
			t.Fatal(err)
		}
		for from.more() {
			if err := h.stepBack(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzTokenBucket(f *testing.F)    { fuzz(f, headgate.TokenBucket) }
func FuzzLeakyBucket(f *testing.F)    { fuzz(f, headgate.LeakyBucket) }
func FuzzGCRA(f *testing.F)           { fuzz(f, headgate.GCRA) }
func FuzzFixedWindow(f *testing.F)    { fuzz(f, headgate.FixedWindow) }
func FuzzSlidingLog(f *testing.F)     { fuzz(f, headgate.SlidingLog) }
func FuzzSlidingWindow(f *testing.F)  { fuzz(f, headgate.SlidingWindow) }
func FuzzSlidingBuckets(f *testing.F) { fuzz(f, headgate.SlidingBuckets) }
func FuzzConcurrency(f *testing.F)    { fuzz(f, headgate.Concurrency) }
