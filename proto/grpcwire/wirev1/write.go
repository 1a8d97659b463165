package wirev1

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Zero fields are not written.

func appendVarint(dst []byte, number byte, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, number<<3), v)
}

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

func appendBool(dst []byte, number byte, v bool) []byte {
	if !v {
		return dst
	}
	return append(dst, number<<3, 1)
}

func appendText[T string | []byte](dst []byte, number byte, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	dst = protowire.AppendVarint(append(dst, number<<3|byte(text)), uint64(len(v)))
	return append(dst, v...)
}

// begin starts an embedded message, and end writes its length, which is known only then.
func begin(dst []byte, number byte) (out []byte, start int) {
	dst = append(dst, number<<3|byte(text), 0)
	return dst, len(dst)
}

func end(dst []byte, start int) []byte {
	n := len(dst) - start
	if n < 0x80 {
		dst[start-1] = byte(n)
		return dst
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	dst = slices.Grow(dst, more)[:len(dst)+more]
	copy(dst[start+more:], dst[start:start+n])
	protowire.AppendVarint(dst[:start-1], uint64(n))
	return dst
}
