package grpcwire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendVarint appends a field with the value v, unless v is zero. In all functions of this file, number is the field's
// number and must be less than 16, so that the tag fits in one byte.
func AppendVarint(dst []byte, number byte, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(append(dst, number<<3), v)
}

// AppendBool appends a field if v is true. A missing field means false.
func AppendBool(dst []byte, number byte, v bool) []byte {
	if !v {
		return dst
	}
	return append(dst, number<<3, 1)
}

// AppendText appends a field with a string or bytes, unless they are empty.
func AppendText[T string | []byte](dst []byte, number byte, v T) []byte {
	if len(v) == 0 {
		return dst
	}
	dst = protowire.AppendVarint(append(dst, number<<3|byte(BytesType)), uint64(len(v)))
	return append(dst, v...)
}

// Begin begins an embedded message. The caller appends its fields and then calls End with start.
func Begin(dst []byte, number byte) (out []byte, start int) {
	dst = append(dst, number<<3|byte(BytesType), 0)
	return dst, len(dst)
}

// End writes the length of the embedded message that began at start. Begin left one byte for it; if the length needs
// more, End moves the message.
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
