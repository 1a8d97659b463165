package wirev1

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields that hold their zero are not written.

func appendVarint(dst []byte, number byte, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, number<<3), v)
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

// begin opens a message that is a field of another, and end closes it. The length is written when it is known.
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
