package grpcwire

import (
	"errors"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

var (
	errUTF8   = errors.New("a string is not valid UTF-8")
	errNumber = errors.New("a field number is too large")
)

// Types of fields. A tag is the number of a field times 8, plus its type.
const (
	VarintType  = uint64(protowire.VarintType)
	Fixed64Type = uint64(protowire.Fixed64Type)
	BytesType   = uint64(protowire.BytesType) // strings, bytes and embedded messages
)

// A Reader reads the fields of a message one after the other, without copying or allocating. After an error all methods
// return zero values, so that Err needs to be checked only at the end.
type Reader struct {
	b   []byte
	err error
}

// NewReader returns a reader of a message.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err returns the first error, which means that the message is malformed.
func (r *Reader) Err() error { return r.err }

// Next returns the tag of the next field, or 0 at the end of the message or after an error.
func (r *Reader) Next() uint64 {
	if len(r.b) == 0 || r.err != nil {
		return 0
	}
	if c := r.b[0]; c < 0x80 && c >= 8 { // a tag of one byte whose field number is not 0
		r.b = r.b[1:]
		return uint64(c)
	}
	number, kind, n := protowire.ConsumeTag(r.b)
	if n >= 0 && number > protowire.MaxValidNumber {
		r.err, r.b = errNumber, nil
		return 0
	}
	if n = r.consume(n); n == 0 {
		return 0
	}
	return uint64(number)<<3 | uint64(kind)
}

// consume skips n bytes and returns n. If n is negative, it is an error code of protowire: consume records the error
// and returns 0.
func (r *Reader) consume(n int) int {
	if n < 0 {
		r.err, r.b = protowire.ParseError(n), nil
		return 0
	}
	r.b = r.b[n:]
	return n
}

// Skip skips the value of a field.
func (r *Reader) Skip(tag uint64) {
	r.consume(protowire.ConsumeFieldValue(protowire.Number(tag>>3), protowire.Type(tag&7), r.b))
}

// Varint returns the value of a field of VarintType.
func (r *Reader) Varint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := uint64(r.b[0])
		r.b = r.b[1:]
		return v
	}
	v, n := protowire.ConsumeVarint(r.b)
	r.consume(n)
	return v
}

// Fixed64 returns the value of a field of Fixed64Type.
func (r *Reader) Fixed64() uint64 {
	v, n := protowire.ConsumeFixed64(r.b)
	r.consume(n)
	return v
}

// Bytes returns the value of a field of BytesType. The slice is a part of the message, not a copy.
func (r *Reader) Bytes() []byte {
	v, n := protowire.ConsumeBytes(r.b)
	r.consume(n)
	return v
}

// Text is like Bytes, but returns a string. It is an error if the value is not valid UTF-8.
func (r *Reader) Text() string {
	v := r.Bytes()
	if !utf8.Valid(v) {
		r.err, r.b = errUTF8, nil
		return ""
	}
	return Borrow(v)
}

// Enter returns a reader of the embedded message that comes next. After reading it, the caller passes the error of that
// reader to Leave.
func (r *Reader) Enter() Reader {
	b := r.Bytes()
	return Reader{b: b, err: r.err}
}

// Leave records the error of an embedded message, if there is one.
func (r *Reader) Leave(err error) {
	if err != nil {
		r.err, r.b = err, nil
	}
}

// Borrow returns a string that shares the memory of b. The bytes must not change while the string is in use.
func Borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
