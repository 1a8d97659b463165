//go:build !race

package hashindex

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Hashes often share the bits that are in the index, and the positions at which probes begin.
func TestIndexAgreesWithMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var x Index
	want := map[uint64][]uint32{} // by the bits of the hash that are in the index
	total := 0
	for step := range 200_000 {
		hash := rng.Uint64N(4)<<40 | rng.Uint64N(16)<<28 | rng.Uint64N(1+uint64(step)/500)
		short := uint64(uint32(hash))
		numbers := want[short]
		switch number := uint32(step + 1); {
		case len(numbers) == 0 || rng.IntN(8) == 0:
			x.Add(hash, number)
			want[short] = append(numbers, number)
			total++
		case rng.IntN(4) > 0:
			i := rng.IntN(len(numbers))
			x.Remove(hash, numbers[i])
			want[short] = slices.Delete(numbers, i, i+1)
			total--
		default:
			i := rng.IntN(len(numbers))
			x.Replace(hash, numbers[i], number)
			numbers[i] = number
		}
		if x.Len() != total {
			t.Fatalf("step %d: Len() = %d, want %d", step, x.Len(), total)
		}
		var got []uint32
		for number, at := x.First(hash); number != 0; number, at = x.Next(hash, at) {
			got = append(got, number)
		}
		slices.Sort(got)
		if expected := slices.Sorted(slices.Values(want[short])); !slices.Equal(got, expected) {
			t.Fatalf("step %d: numbers under %x are %v, want %v", step, hash, got, expected)
		}
	}
}

func TestEmptyIndexReleasesItsMemory(t *testing.T) {
	var x Index
	for i := range uint32(1000) {
		x.Add(uint64(i)*977, i+1)
	}
	for i := range uint32(1000) {
		x.Remove(uint64(i)*977, i+1)
	}
	if x.Len() != 0 || len(x.words) > maxEmptyWords {
		t.Errorf("an empty index has %d numbers and %d words, want 0 and at most %d", x.Len(), len(x.words), maxEmptyWords)
	}
}
