package harness

import (
	"math/rand/v2"
	"unsafe"
)

// KeyBytes is the length of every key: "user:" and eleven hex digits.
const KeyBytes = 16

// putKey writes the name of key i, for i below 2^44. All names differ, and names of consecutive keys are not similar.
func putKey(buf *[KeyBytes]byte, i int) {
	const digits = "0123456789abcdef"
	copy(buf[:], "user:")
	n := uint64(i) * 0x9E3779B97F5 & (1<<44 - 1) // an odd factor: no two the same
	for at := KeyBytes - 1; at >= 5; at-- {
		buf[at] = digits[n&15]
		n >>= 4
	}
}

// EachKey calls visit with n keys that were not in memory before. Contenders that keep their keys get new strings. The
// others get the same buffer each time.
func EachKey(n int, keep bool, visit func(key string)) {
	var buf [KeyBytes]byte
	shared := unsafe.String(&buf[0], KeyBytes)
	for i := range n {
		putKey(&buf, i)
		if keep {
			visit(string(buf[:]))
		} else {
			visit(shared)
		}
	}
}

// KeyList returns n keys with the given numbers, in one block of memory.
func KeyList(n int, number func(i int) int) []string {
	arena := make([]byte, 0, n*KeyBytes)
	keys := make([]string, n)
	var buf [KeyBytes]byte
	for i := range keys {
		putKey(&buf, number(i))
		arena = append(arena, buf[:]...)
		keys[i] = unsafe.String(&arena[i*KeyBytes], KeyBytes)
	}
	return keys
}

// The orders of requests for keys.
const (
	Uniform = "uniform"
	Zipf    = "zipf"
)

// ZipfExponent is the exponent s of the Zipf distribution, 1/rank^s.
const ZipfExponent = 1.05

// sequenceSeed is the same for all contenders, so that they get the same sequence.
const sequenceSeed = 20

// NewSequence returns a sequence of n keys in an order. With zipf, the popularity of a key does not depend on when it
// was created.
func NewSequence(order string, keys, n int) []uint32 {
	rng := rand.New(rand.NewPCG(sequenceSeed, uint64(keys)))
	picks := make([]uint32, n)
	if order == Zipf && keys > 1 {
		byRank := rng.Perm(keys)
		ranks := rand.NewZipf(rng, ZipfExponent, 1, uint64(keys-1))
		for i := range picks {
			picks[i] = uint32(byRank[ranks.Uint64()])
		}
		return picks
	}
	for i := range picks {
		picks[i] = rng.Uint32N(uint32(keys))
	}
	return picks
}
