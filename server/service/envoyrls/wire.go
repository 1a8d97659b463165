package envoyrls

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/proto/grpcwire"
)

// This file decodes and encodes the messages of envoy.service.ratelimit.v3 without generated code, to save allocations.
// A test compares the results with those of the generated code.

var (
	_ grpcwire.Message = (*request)(nil)
	_ grpcwire.Message = (*reply)(nil)
)

// A request is a RateLimitRequest. Its strings point into buf, which is reused.
type request struct {
	domain      string
	descriptors []descriptor
	hits        uint32

	entries []entry // of all descriptors
	buf     []byte
	limits  Limits
	tooMany string // the kind of element that exceeds its limit; empty if the request was read completely
}

// A descriptor is a RateLimitDescriptor.
type descriptor struct {
	from, to int32 // index range of its entries
	override override
	hits     uint64
	hasHits  bool
	negative bool // is_negative_hits: the hits are returned
}

// An override is a limit that the request states (RateLimitOverride).
type override struct {
	present    bool
	requests   uint32
	unit       uint32
	multiplier uint32 // 0 for none
}

// An entry is a key and a value.
type entry struct{ key, value string }

var errUnsupported = fmt.Errorf("envoyrls: %w: a server only reads requests and writes replies", errors.ErrUnsupported)

// MarshalWire is not supported: a server only reads requests.
func (r *request) MarshalWire([]byte) ([]byte, error) { return nil, errUnsupported }

// UnmarshalWire reads a request. It stops when the request exceeds its limits.
func (r *request) UnmarshalWire(b []byte) error {
	r.domain, r.hits, r.tooMany = "", 0, ""
	r.descriptors, r.entries = r.descriptors[:0], r.entries[:0]
	r.buf = append(r.buf[:0], b...)
	in := grpcwire.NewReader(r.buf)
	for tag := in.Next(); tag != 0 && r.tooMany == ""; tag = in.Next() {
		switch tag {
		case 1<<3 | grpcwire.BytesType:
			r.domain = in.Text()
		case 2<<3 | grpcwire.BytesType:
			in.Leave(r.readDescriptor(in.Enter())) // a message inside the request
		case 3<<3 | grpcwire.VarintType:
			r.hits = uint32(in.Varint())
		default:
			in.Skip(tag)
		}
	}
	return in.Err()
}

func (r *request) readDescriptor(in grpcwire.Reader) error {
	if len(r.descriptors) == r.limits.Descriptors {
		r.tooMany = "descriptors"
		return in.Err()
	}
	start := int32(len(r.entries))
	r.descriptors = append(r.descriptors, descriptor{from: start, to: start})
	d := &r.descriptors[len(r.descriptors)-1]
	for tag := in.Next(); tag != 0 && r.tooMany == ""; tag = in.Next() {
		switch tag {
		case 1<<3 | grpcwire.BytesType:
			in.Leave(r.readEntry(in.Enter(), d))
		case 2<<3 | grpcwire.BytesType:
			d.override.present = true
			in.Leave(d.override.read(in.Enter()))
		case 3<<3 | grpcwire.BytesType:
			d.hasHits = true
			d.hits = readWrapper(&in, d.hits)
		case 4<<3 | grpcwire.VarintType:
			d.negative = in.Varint() != 0
		default:
			in.Skip(tag)
		}
	}
	return in.Err()
}

func (r *request) readEntry(in grpcwire.Reader, d *descriptor) error {
	if int(d.to-d.from) == r.limits.Entries {
		r.tooMany = "entries of a descriptor"
		return in.Err()
	}
	var e entry
	for tag := in.Next(); tag != 0; tag = in.Next() {
		switch tag {
		case 1<<3 | grpcwire.BytesType:
			e.key = in.Text()
		case 2<<3 | grpcwire.BytesType:
			e.value = readValue(&in)
		default:
			in.Skip(tag)
		}
	}
	r.entries = append(r.entries, e)
	d.to++
	return in.Err()
}

// readValue reads the value of an entry, and replaces invalid UTF-8. It must not return an error: clients may control
// the value, for example with a request header, and after an error, an Envoy that fails open would allow the request.
func readValue(in *grpcwire.Reader) string {
	value := in.Bytes()
	if !utf8.Valid(value) {
		return string(bytes.ToValidUTF8(value, []byte("\ufffd")))
	}
	return grpcwire.Borrow(value)
}

func (o *override) read(in grpcwire.Reader) error {
	for tag := in.Next(); tag != 0; tag = in.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			o.requests = uint32(in.Varint())
		case 2<<3 | grpcwire.VarintType:
			o.unit = uint32(in.Varint())
		case 3<<3 | grpcwire.BytesType:
			o.multiplier = uint32(readWrapper(&in, uint64(o.multiplier)))
		default:
			in.Skip(tag)
		}
	}
	return in.Err()
}

// readWrapper reads the number in a protobuf wrapper message. If the wrapper is empty, it returns number.
func readWrapper(in *grpcwire.Reader, number uint64) uint64 {
	inner := in.Enter()
	for tag := inner.Next(); tag != 0; tag = inner.Next() {
		if tag == 1<<3|grpcwire.VarintType {
			number = inner.Varint()
		} else {
			inner.Skip(tag)
		}
	}
	in.Leave(inner.Err())
	return number
}

// A code is a RateLimitResponse.Code. Unknown is never sent.
type code uint8

const (
	ok        code = 1
	overLimit code = 2
)

// A status is a DescriptorStatus.
type status struct {
	code      code
	current   []byte // current_limit; nil for none
	remaining uint32
	reset     time.Duration // sent in whole seconds, rounded up
	hasReset  bool

	// The following fields are not sent.

	max    int64 // number of allowed hits
	over   bool  // the limit is exceeded, even if the code is ok
	denies bool  // the request is denied because of this status alone
}

// seconds returns the whole seconds until the limit is reset.
func (s *status) seconds() int64 { return int64((s.reset + time.Second - 1) / time.Second) }

// append appends the status to a RateLimitResponse.
func (s *status) append(dst []byte) []byte {
	dst, start := grpcwire.Begin(dst, 2)
	dst = grpcwire.AppendVarint(dst, 1, uint64(s.code))
	if s.current != nil {
		var limit int
		dst, limit = grpcwire.Begin(dst, 2)
		dst = grpcwire.End(append(dst, s.current...), limit)
	}
	dst = grpcwire.AppendVarint(dst, 3, uint64(s.remaining))
	if s.hasReset {
		var duration int
		dst, duration = grpcwire.Begin(dst, 4)
		dst = grpcwire.End(grpcwire.AppendVarint(dst, 1, uint64(s.seconds())), duration)
	}
	return grpcwire.End(dst, start)
}

// currentLimit returns an encoded RateLimitResponse.RateLimit. It is never nil.
func currentLimit(name string, requests uint32, u Unit, multiplier uint32) []byte {
	dst := make([]byte, 0, 16+len(name))
	dst = grpcwire.AppendVarint(dst, 1, uint64(requests))
	dst = grpcwire.AppendVarint(dst, 2, uint64(u))
	dst = grpcwire.AppendText(dst, 3, name)
	if multiplier != 0 {
		var start int
		dst, start = grpcwire.Begin(dst, 4)
		dst = grpcwire.End(grpcwire.AppendVarint(dst, 1, uint64(multiplier)), start)
	}
	return dst
}

// appendHeader appends a response header.
func appendHeader(dst []byte, name, value string) []byte {
	dst, start := grpcwire.Begin(dst, 3)
	dst = grpcwire.AppendText(dst, 1, name)
	return grpcwire.End(grpcwire.AppendText(dst, 2, value), start)
}

func uint32Of(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }
