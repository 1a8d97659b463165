package wirev1

// putVarint writes a field into b at n, which must have room for it, and returns its end.
func putVarint(b []byte, n int, number byte, v uint64) int {
	if v == 0 {
		return n
	}
	b[n] = number << 3
	n++
	for ; v >= 0x80; v >>= 7 {
		b[n] = byte(v) | 0x80
		n++
	}
	b[n] = byte(v)
	return n + 1
}
