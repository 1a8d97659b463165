package algorithm_test

import (
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate"
)

// FuzzSteps compares an algorithm with its oracle on histories that the fuzzer writes: an algorithm, a limit, whether
// the clock may go back, and then steps.
func FuzzSteps(f *testing.F) {
	for _, a := range headgate.Algorithms() {
		for i := range 20 {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			data := make([]byte, 200)
			for j := range data {
				data[j] = byte(rng.Uint32())
			}
			f.Add(uint8(a), data)
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, data []byte) {
		all := headgate.Algorithms()
		from := tape(data[:min(len(data), 1000)])
		l := drawLimit(&from, all[int(number)%len(all)])
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
