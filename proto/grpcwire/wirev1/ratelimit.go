package wirev1

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxAttributes bounds the attributes of a request that are read. If there are more, TooMany is set and the rest is
// missing.
const MaxAttributes = 256

// An Attribute is an attribute of a RateLimitRequest.
type Attribute struct{ Name, Value string }

// A RateLimitRequest is headgate.v1.RateLimitRequest.
type RateLimitRequest struct {
	Rule, User, IP, APIKey string
	Attributes             []Attribute
	Cost                   int64
	HasCost                bool
	TooMany                bool

	own []byte
}

// UnmarshalWire reads the message.
func (m *RateLimitRequest) UnmarshalWire(b []byte) error {
	m.own = append(m.own[:0], b...)
	m.reset()
	r := reader{b: m.own}
	m.read(&r)
	return r.err
}

// Kept returns the bytes that the message keeps for reuse.
func (m *RateLimitRequest) Kept() int { return cap(m.own) }

func (m *RateLimitRequest) reset() {
	m.Rule, m.User, m.IP, m.APIKey, m.Cost, m.HasCost, m.TooMany = "", "", "", "", 0, false, false
	m.Attributes = m.Attributes[:0]
}

func (m *RateLimitRequest) read(r *reader) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | text:
			m.Rule = r.str()
		case 2<<3 | text:
			inner := r.enter()
			m.readClient(&inner)
			r.leave(&inner)
		case 3<<3 | text:
			inner := r.enter()
			m.readAttribute(&inner)
			r.leave(&inner)
		case 4<<3 | varint:
			m.Cost, m.HasCost = int64(r.varint()), true
		default:
			r.skip(tag)
		}
	}
}

func (m *RateLimitRequest) readClient(r *reader) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | text:
			m.User = r.str()
		case 2<<3 | text:
			m.IP = r.str()
		case 3<<3 | text:
			m.APIKey = r.str()
		default:
			r.skip(tag)
		}
	}
}

func (m *RateLimitRequest) readAttribute(r *reader) {
	if m.TooMany { // searching each name among so many would take long
		return
	}
	var a Attribute
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | text:
			a.Name = r.str()
		case 2<<3 | text:
			a.Value = r.str()
		default:
			r.skip(tag)
		}
	}
	for i := range m.Attributes {
		if m.Attributes[i].Name == a.Name {
			m.Attributes[i].Value = a.Value
			return
		}
	}
	if len(m.Attributes) == MaxAttributes {
		m.TooMany = true
		return
	}
	m.Attributes = append(m.Attributes, a)
}

// MarshalWire appends the message.
func (m *RateLimitRequest) MarshalWire(dst []byte) ([]byte, error) { return m.append(dst), nil }

func (m *RateLimitRequest) append(dst []byte) []byte {
	dst = appendText(dst, 1, m.Rule)
	if m.User != "" || m.IP != "" || m.APIKey != "" {
		var start int
		dst, start = begin(dst, 2)
		dst = appendText(dst, 1, m.User)
		dst = appendText(dst, 2, m.IP)
		dst = appendText(dst, 3, m.APIKey)
		dst = end(dst, start)
	}
	for i := range m.Attributes {
		var start int
		dst, start = begin(dst, 3)
		dst = appendText(dst, 1, m.Attributes[i].Name)
		dst = appendText(dst, 2, m.Attributes[i].Value)
		dst = end(dst, start)
	}
	if m.HasCost {
		dst = protowire.AppendVarint(append(dst, 4<<3), uint64(m.Cost))
	}
	return dst
}

// A RateLimitResponse is headgate.v1.RateLimitResponse.
type RateLimitResponse struct {
	Passed, Degraded, Drop bool
	HasReset               bool
	Limit, Remaining       int64
	ResetSeconds           int64 // since 1970
	ResetNanos             int32
	RetryAfterMs, DelayMs  int64
	Rule                   string
	Lease                  []byte // UTF-8
	Reason, HTTPStatus     int32
	ErrorCode              int32 // 0 for none
	ErrorMessage           string

	own []byte
}

// UnmarshalWire reads the message.
func (m *RateLimitResponse) UnmarshalWire(b []byte) error {
	*m = RateLimitResponse{own: m.own[:0]}
	m.own = append(m.own, b...)
	r := reader{b: m.own}
	m.read(&r)
	return r.err
}

func (m *RateLimitResponse) read(r *reader) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			m.Passed = r.varint() != 0
		case 2<<3 | varint:
			m.Limit = int64(r.varint())
		case 3<<3 | varint:
			m.Remaining = int64(r.varint())
		case 4<<3 | text:
			m.HasReset = true
			inner := r.enter()
			m.readReset(&inner)
			r.leave(&inner)
		case 5<<3 | varint:
			m.RetryAfterMs = int64(r.varint())
		case 6<<3 | varint:
			m.DelayMs = int64(r.varint())
		case 7<<3 | text:
			m.Rule = r.str()
		case 8<<3 | text:
			lease := r.str()
			m.Lease = []byte(lease)
		case 9<<3 | varint:
			m.Degraded = r.varint() != 0
		case 10<<3 | varint:
			m.Reason = int32(r.varint())
		case 11<<3 | varint:
			m.HTTPStatus = int32(r.varint())
		case 12<<3 | varint:
			m.Drop = r.varint() != 0
		case 15<<3 | text:
			inner := r.enter()
			m.readError(&inner)
			r.leave(&inner)
		default:
			r.skip(tag)
		}
	}
}

func (m *RateLimitResponse) readReset(r *reader) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			m.ResetSeconds = int64(r.varint())
		case 2<<3 | varint:
			m.ResetNanos = int32(r.varint())
		default:
			r.skip(tag)
		}
	}
}

func (m *RateLimitResponse) readError(r *reader) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			m.ErrorCode = int32(r.varint())
		case 2<<3 | text:
			m.ErrorMessage = r.str()
		default:
			r.skip(tag)
		}
	}
}

// MarshalWire appends the message.
func (m *RateLimitResponse) MarshalWire(dst []byte) ([]byte, error) { return m.append(dst), nil }

func (m *RateLimitResponse) append(dst []byte) []byte {
	// Reserve the maximum size of all numbers at once.
	const room = 16 * 11
	dst = slices.Grow(dst, room)
	b, n := dst[len(dst):len(dst)+room], 0
	if m.Passed {
		b[0], b[1], n = 1<<3, 1, 2
	}
	n = putVarint(b, n, 2, uint64(m.Limit))
	n = putVarint(b, n, 3, uint64(m.Remaining))
	if m.HasReset {
		start := n + 2
		n = putVarint(b, start, 1, uint64(m.ResetSeconds))
		n = putVarint(b, n, 2, uint64(m.ResetNanos))
		b[start-2], b[start-1] = 4<<3|byte(text), byte(n-start)
	}
	n = putVarint(b, n, 5, uint64(m.RetryAfterMs))
	n = putVarint(b, n, 6, uint64(m.DelayMs))
	if m.Degraded {
		b[n], b[n+1] = 9<<3, 1
		n += 2
	}
	n = putVarint(b, n, 10, uint64(m.Reason))
	n = putVarint(b, n, 11, uint64(m.HTTPStatus))
	if m.Drop {
		b[n], b[n+1] = 12<<3, 1
		n += 2
	}
	dst = dst[:len(dst)+n]
	dst = appendText(dst, 7, m.Rule)
	dst = appendText(dst, 8, m.Lease)
	if m.ErrorCode != 0 {
		var start int
		dst, start = begin(dst, 15)
		dst = appendVarint(dst, 1, uint64(m.ErrorCode))
		dst = appendText(dst, 2, m.ErrorMessage)
		dst = end(dst, start)
	}
	return dst
}
