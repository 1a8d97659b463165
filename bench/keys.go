package main

import (
	"math/rand/v2"
	"unsafe"
)

// keyBytes is the length of every key: "user:" and eleven hex digits.
const keyBytes = 16

// putKey writes the name of key i, different for every i below 2^44, with neighbours that look unlike.
func putKey(buf *[keyBytes]byte, i int) {
	const digits = "0123456789abcdef"
	copy(buf[:], "user:")
	n := uint64(i) * 0x9E3779B97F5 & (1<<44 - 1) // an odd factor: no two the same
	for at := keyBytes - 1; at >= 5; at-- {
		buf[at] = digits[n&15]
		n >>= 4
	}
}

// eachKey calls visit with n keys that were not in memory before: fresh strings for those that
// keep them, and for the others one buffer that is used again.
func eachKey(n int, keep bool, visit func(key string)) {
	var buf [keyBytes]byte
	shared := unsafe.String(&buf[0], keyBytes)
	for i := range n {
		putKey(&buf, i)
		if keep {
			visit(string(buf[:]))
		} else {
			visit(shared)
		}
	}
}

// keyList returns n keys, those that the numbers name, in one piece of memory.
func keyList(n int, number func(i int) int) []string {
	arena := make([]byte, 0, n*keyBytes)
	keys := make([]string, n)
	var buf [keyBytes]byte
	for i := range keys {
		putKey(&buf, number(i))
		arena = append(arena, buf[:]...)
		keys[i] = unsafe.String(&arena[i*keyBytes], keyBytes)
	}
	return keys
}

// The orders in which keys are asked for.
const (
	uniform = "uniform"
	zipf    = "zipf"
)

// zipfExponent is the s of 1/rank^s.
const zipfExponent = 1.05

// sequenceSeed makes every contender see the same sequence.
const sequenceSeed = 20

// newSequence returns n picks from so many keys in an order. Under zipf, which keys are the popular ones has nothing to
// do with when they were made.
func newSequence(order string, keys, n int) []uint32 {
	rng := rand.New(rand.NewPCG(sequenceSeed, uint64(keys)))
	picks := make([]uint32, n)
	if order == zipf && keys > 1 {
		byRank := rng.Perm(keys)
		ranks := rand.NewZipf(rng, zipfExponent, 1, uint64(keys-1))
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
