package envoyrls

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate/proto/grpcwire"
)

// The messages of envoy.service.ratelimit.v3, decoded and encoded by hand. A test compares them with the generated
// code.

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
	negative bool // the hits are returned
}

// An override is a limit that a request brings.
type override struct {
	present    bool
	requests   uint32
	unit       uint32
	multiplier uint32 // 0 for none
}

// An entry is a key and a value.
type entry struct{ key, value string }

var (
	errUTF8   = errors.New("string is not valid UTF-8")
	errNumber = errors.New("field number is too large")

	errUnsupported = fmt.Errorf("envoyrls: %w: a server only reads requests and writes replies", errors.ErrUnsupported)
)

// MarshalWire is not supported: a server only reads requests.
func (r *request) MarshalWire([]byte) ([]byte, error) { return nil, errUnsupported }

// UnmarshalWire reads a request. It stops when the request exceeds its limits.
func (r *request) UnmarshalWire(b []byte) error {
	r.domain, r.hits, r.tooMany = "", 0, ""
	r.descriptors, r.entries = r.descriptors[:0], r.entries[:0]
	r.buf = append(r.buf[:0], b...)
	for b = r.buf; len(b) > 0 && r.tooMany == ""; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if num > protowire.MaxValidNumber {
			return errNumber
		}
		b = b[n:]
		var err error
		switch {
		case num == 1 && typ == protowire.BytesType:
			r.domain, b, err = readString(b)
		case num == 2 && typ == protowire.BytesType:
			var inner []byte
			if inner, b, err = readBytes(b); err == nil {
				err = r.descriptor(inner)
			}
		case num == 3 && typ == protowire.VarintType:
			var v uint64
			v, b, err = readVarint(b)
			r.hits = uint32(v)
		default:
			b, err = skipField(b, num, typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *request) descriptor(b []byte) error {
	if len(r.descriptors) == r.limits.Descriptors {
		r.tooMany = "descriptors"
		return nil
	}
	at := int32(len(r.entries))
	r.descriptors = append(r.descriptors, descriptor{from: at, to: at})
	d := &r.descriptors[len(r.descriptors)-1]
	for len(b) > 0 && r.tooMany == "" {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if num > protowire.MaxValidNumber {
			return errNumber
		}
		b = b[n:]
		var err error
		var inner []byte
		var v uint64
		switch {
		case num == 1 && typ == protowire.BytesType:
			if inner, b, err = readBytes(b); err == nil {
				err = r.entry(inner, d)
			}
		case num == 2 && typ == protowire.BytesType:
			if inner, b, err = readBytes(b); err == nil {
				d.override.present = true
				err = d.override.read(inner)
			}
		case num == 3 && typ == protowire.BytesType:
			if inner, b, err = readBytes(b); err == nil {
				d.hasHits = true
				err = readWrapper(inner, &d.hits)
			}
		case num == 4 && typ == protowire.VarintType:
			v, b, err = readVarint(b)
			d.negative = v != 0
		default:
			b, err = skipField(b, num, typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *request) entry(b []byte, d *descriptor) error {
	if int(d.to-d.from) == r.limits.Entries {
		r.tooMany = "entries of a descriptor"
		return nil
	}
	var e entry
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if num > protowire.MaxValidNumber {
			return errNumber
		}
		b = b[n:]
		var err error
		switch {
		case num == 1 && typ == protowire.BytesType:
			e.key, b, err = readString(b)
		case num == 2 && typ == protowire.BytesType:
			e.value, b, err = readValue(b)
		default:
			b, err = skipField(b, num, typ)
		}
		if err != nil {
			return err
		}
	}
	r.entries = append(r.entries, e)
	d.to++
	return nil
}

func (o *override) read(b []byte) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if num > protowire.MaxValidNumber {
			return errNumber
		}
		b = b[n:]
		var err error
		var v uint64
		switch {
		case num == 1 && typ == protowire.VarintType:
			v, b, err = readVarint(b)
			o.requests = uint32(v)
		case num == 2 && typ == protowire.VarintType:
			v, b, err = readVarint(b)
			o.unit = uint32(v)
		case num == 3 && typ == protowire.BytesType:
			var inner []byte
			if inner, b, err = readBytes(b); err == nil {
				v = uint64(o.multiplier)
				err = readWrapper(inner, &v)
				o.multiplier = uint32(v)
			}
		default:
			b, err = skipField(b, num, typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readWrapper reads the number of a protobuf wrapper message.
func readWrapper(b []byte, into *uint64) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if num > protowire.MaxValidNumber {
			return errNumber
		}
		b = b[n:]
		var err error
		if num == 1 && typ == protowire.VarintType {
			*into, b, err = readVarint(b)
		} else {
			b, err = skipField(b, num, typ)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func readBytes(b []byte) (inner, rest []byte, err error) {
	inner, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return nil, nil, protowire.ParseError(n)
	}
	return inner, b[n:], nil
}

func readString(b []byte) (s string, rest []byte, err error) {
	inner, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return "", nil, protowire.ParseError(n)
	}
	if !utf8.Valid(inner) {
		return "", nil, errUTF8
	}
	return unsafe.String(unsafe.SliceData(inner), len(inner)), b[n:], nil
}

// readValue is readString for values that clients may choose, for example a header. An error would let clients that
// send invalid UTF-8 pass an Envoy that fails open, so invalid bytes are replaced.
func readValue(b []byte) (s string, rest []byte, err error) {
	inner, n := protowire.ConsumeBytes(b)
	if n < 0 {
		return "", nil, protowire.ParseError(n)
	}
	if !utf8.Valid(inner) {
		return string(bytes.ToValidUTF8(inner, []byte("\ufffd"))), b[n:], nil
	}
	return unsafe.String(unsafe.SliceData(inner), len(inner)), b[n:], nil
}

func readVarint(b []byte) (v uint64, rest []byte, err error) {
	v, n := protowire.ConsumeVarint(b)
	if n < 0 {
		return 0, nil, protowire.ParseError(n)
	}
	return v, b[n:], nil
}

func skipField(b []byte, num protowire.Number, typ protowire.Type) (rest []byte, err error) {
	n := protowire.ConsumeFieldValue(num, typ, b)
	if n < 0 {
		return nil, protowire.ParseError(n)
	}
	return b[n:], nil
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

	max    int64 // hits that may pass
	over   bool  // the limit is exceeded, even if the code is ok
	denies bool  // the request is denied because of this status alone
}

// seconds returns the whole seconds until the limit is reset.
func (s *status) seconds() int64 { return int64((s.reset + time.Second - 1) / time.Second) }

func (s *status) size() int {
	n := 2
	if s.current != nil {
		n += 1 + protowire.SizeBytes(len(s.current))
	}
	if s.remaining != 0 {
		n += 1 + protowire.SizeVarint(uint64(s.remaining))
	}
	if s.hasReset {
		n += 1 + protowire.SizeBytes(sizeDuration(s.seconds()))
	}
	return n
}

func (s *status) append(dst []byte) []byte {
	dst = append(dst, 1<<3|byte(protowire.VarintType), byte(s.code))
	if s.current != nil {
		dst = append(dst, 2<<3|byte(protowire.BytesType))
		dst = protowire.AppendBytes(dst, s.current)
	}
	if s.remaining != 0 {
		dst = append(dst, 3<<3|byte(protowire.VarintType))
		dst = protowire.AppendVarint(dst, uint64(s.remaining))
	}
	if s.hasReset {
		seconds := s.seconds()
		dst = append(dst, 4<<3|byte(protowire.BytesType), byte(sizeDuration(seconds)))
		if seconds != 0 {
			dst = append(dst, 1<<3|byte(protowire.VarintType))
			dst = protowire.AppendVarint(dst, uint64(seconds))
		}
	}
	return dst
}

func sizeDuration(seconds int64) int {
	if seconds == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(uint64(seconds))
}

// currentLimit returns an encoded RateLimitResponse.RateLimit. It is never nil.
func currentLimit(name string, requests uint32, u Unit, multiplier uint32) []byte {
	dst := make([]byte, 0, 16+len(name))
	if requests != 0 {
		dst = append(dst, 1<<3|byte(protowire.VarintType))
		dst = protowire.AppendVarint(dst, uint64(requests))
	}
	if u != UnitUnknown {
		dst = append(dst, 2<<3|byte(protowire.VarintType), byte(u))
	}
	if name != "" {
		dst = append(dst, 3<<3|byte(protowire.BytesType))
		dst = protowire.AppendString(dst, name)
	}
	if multiplier != 0 {
		dst = append(dst, 4<<3|byte(protowire.BytesType), byte(1+protowire.SizeVarint(uint64(multiplier))),
			1<<3|byte(protowire.VarintType))
		dst = protowire.AppendVarint(dst, uint64(multiplier))
	}
	return dst
}

// appendHeader appends a response header.
func appendHeader(dst []byte, name, value string) []byte {
	dst = append(dst, 3<<3|byte(protowire.BytesType))
	dst = protowire.AppendVarint(dst, uint64(2+protowire.SizeBytes(len(name))+protowire.SizeBytes(len(value))))
	dst = append(dst, 1<<3|byte(protowire.BytesType))
	dst = protowire.AppendString(dst, name)
	dst = append(dst, 2<<3|byte(protowire.BytesType))
	return protowire.AppendString(dst, value)
}

func uint32Of(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }
