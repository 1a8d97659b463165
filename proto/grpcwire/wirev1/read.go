package wirev1

import (
	"errors"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

var errUTF8 = errors.New("a string is not valid UTF-8")

// Wire types, as part of a tag.
const (
	varint  = uint64(protowire.VarintType)
	fixed64 = uint64(protowire.Fixed64Type)
	text    = uint64(protowire.BytesType)
)

// A reader iterates over the fields of a message.
type reader struct {
	b   []byte
	err error
}

// next returns the tag of the next field: its number times 8, plus its wire type. It returns 0 at the end, or if the
// message is malformed.
func (r *reader) next() uint64 {
	if len(r.b) == 0 || r.err != nil {
		return 0
	}
	if c := r.b[0]; c < 0x80 && c >= 8 {
		r.b = r.b[1:]
		return uint64(c)
	}
	number, kind, n := protowire.ConsumeTag(r.b)
	if n < 0 {
		r.fail(n)
		return 0
	}
	r.b = r.b[n:]
	return uint64(number)<<3 | uint64(kind)
}

func (r *reader) fail(n int) {
	r.err, r.b = protowire.ParseError(n), nil
}

// skip skips the value of an unknown field.
func (r *reader) skip(tag uint64) {
	n := protowire.ConsumeFieldValue(protowire.Number(tag>>3), protowire.Type(tag&7), r.b)
	if n < 0 {
		r.fail(n)
		return
	}
	r.b = r.b[n:]
}

func (r *reader) varint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := uint64(r.b[0])
		r.b = r.b[1:]
		return v
	}
	v, n := protowire.ConsumeVarint(r.b)
	if n < 0 {
		r.fail(n)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) fixed64() uint64 {
	v, n := protowire.ConsumeFixed64(r.b)
	if n < 0 {
		r.fail(n)
		return 0
	}
	r.b = r.b[n:]
	return v
}

// bytes returns a bytes field without copying.
func (r *reader) bytes() []byte {
	v, n := protowire.ConsumeBytes(r.b)
	if n < 0 {
		r.fail(n)
		return nil
	}
	r.b = r.b[n:]
	return v
}

// str returns a string field without copying.
func (r *reader) str() string {
	v := r.bytes()
	if !utf8.Valid(v) {
		r.err, r.b = errUTF8, nil
		return ""
	}
	return borrow(v)
}

// enter returns a reader of an embedded message, and leave copies its error back. A callback with the inner reader
// would move it to the heap.
func (r *reader) enter() reader {
	b := r.bytes()
	return reader{b: b, err: r.err}
}

func (r *reader) leave(inner *reader) {
	if inner.err != nil {
		r.err, r.b = inner.err, nil
	}
}

// borrow returns the bytes as a string without copying.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
