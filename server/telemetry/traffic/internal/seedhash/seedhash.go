// Package seedhash hashes texts with a seed that all nodes of a fleet share.
package seedhash

import "math/bits"

// Sum returns a hash of a text. All nodes with the same seed return the same hash, and therefore sample the same
// clients. Clients do not know the seed and cannot choose to be sampled. The function is fast enough to be called for
// each decision.
func Sum(seed uint64, text string) uint64 {
	const (
		prime1 = 0x9e3779b97f4a7c15
		prime2 = 0xd6e8feb86659fd93
	)
	h := seed ^ uint64(len(text))*prime1
	for len(text) > 16 {
		h = Fold(h^word(text), prime1)
		text = text[8:]
	}
	switch n := len(text); {
	case n >= 8: // the words overlap
		h = Fold(h^word(text), prime1) ^ word(text[n-8:])
	case n >= 4:
		h ^= half(text) | half(text[n-4:])<<32
	case n > 0:
		h ^= uint64(text[0]) | uint64(text[n/2])<<8 | uint64(text[n-1])<<16
	}
	return Fold(Fold(h, prime1)^seed, prime2)
}

// word returns the first 8 bytes of a text, and half the first 4. The compiler makes one load of each.
func word(text string) uint64 {
	_ = text[7]
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

func half(text string) uint64 {
	_ = text[3]
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24
}

// Fold returns the halves of the product of two numbers, combined.
func Fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
