package traffic

import "math/bits"

// fleetHash returns a hash of a text that is the same on all nodes with the same seed, so that they sample the same
// clients. It is short enough for the decision path, and keyed so that clients cannot choose to be sampled.
func fleetHash(seed uint64, text string) uint64 {
	const (
		prime1 = 0x9e3779b97f4a7c15
		prime2 = 0xd6e8feb86659fd93
	)
	h := seed ^ uint64(len(text))*prime1
	for len(text) >= 8 {
		word := uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
			uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
		h = fold(h^word, prime1)
		text = text[8:]
	}
	word := uint64(0)
	for i := range len(text) {
		word |= uint64(text[i]) << (8 * i)
	}
	return fold(fold(h^word, prime1)^seed, prime2)
}

func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}
