package grpcwire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendVarint appends a number, unless it is zero. The field's number must be less than 16, here and below.
func AppendVarint(dst []byte, number byte, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, number<<3), v)
}

// AppendBool appends true, and nothing for false.
func AppendBool(dst []byte, number byte, v bool) []byte {
	if !v {
		return dst
	}
	return append(dst, number<<3, 1)
}

// AppendText appends a string or bytes, unless they are empty.
func AppendText[T string | []byte](dst []byte, number byte, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	dst = protowire.AppendVarint(append(dst, number<<3|byte(BytesType)), uint64(len(v)))
	return append(dst, v...)
}

// Begin begins an embedded message, which the caller appends next. End writes its length, which is known only then.
func Begin(dst []byte, number byte) (out []byte, start int) {
	dst = append(dst, number<<3|byte(BytesType), 0)
	return dst, len(dst)
}

// End ends an embedded message that began at start.
func End(dst []byte, start int) []byte {
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
