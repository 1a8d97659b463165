package wirev1

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate/proto/grpcwire"
)

// MaxAttributes is the maximum number of attributes of a request that UnmarshalWire reads. If there are more, it sets
// TooMany and omits the rest.
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

	buffer []byte
}

// UnmarshalWire reads the message.
func (m *RateLimitRequest) UnmarshalWire(b []byte) error {
	m.buffer = append(m.buffer[:0], b...)
	m.reset()
	return m.read(grpcwire.NewReader(m.buffer))
}

// BufferSize returns the size of the buffer that the message keeps for reuse, in bytes.
func (m *RateLimitRequest) BufferSize() int { return cap(m.buffer) }

func (m *RateLimitRequest) reset() {
	m.Rule, m.User, m.IP, m.APIKey, m.Cost, m.HasCost, m.TooMany = "", "", "", "", 0, false, false
	m.Attributes = m.Attributes[:0]
}

func (m *RateLimitRequest) read(r grpcwire.Reader) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.BytesType:
			m.Rule = r.Text()
		case 2<<3 | grpcwire.BytesType:
			r.Leave(m.readClient(r.Enter()))
		case 3<<3 | grpcwire.BytesType:
			r.Leave(m.readAttribute(r.Enter()))
		case 4<<3 | grpcwire.VarintType:
			m.Cost, m.HasCost = int64(r.Varint()), true
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

func (m *RateLimitRequest) readClient(r grpcwire.Reader) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.BytesType:
			m.User = r.Text()
		case 2<<3 | grpcwire.BytesType:
			m.IP = r.Text()
		case 3<<3 | grpcwire.BytesType:
			m.APIKey = r.Text()
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

func (m *RateLimitRequest) readAttribute(r grpcwire.Reader) error {
	if m.TooMany { // searching each name among so many would take long
		return r.Err()
	}
	var a Attribute
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.BytesType:
			a.Name = r.Text()
		case 2<<3 | grpcwire.BytesType:
			a.Value = r.Text()
		default:
			r.Skip(tag)
		}
	}
	for i := range m.Attributes {
		if m.Attributes[i].Name == a.Name {
			m.Attributes[i].Value = a.Value
			return r.Err()
		}
	}
	if len(m.Attributes) == MaxAttributes {
		m.TooMany = true
		return r.Err()
	}
	m.Attributes = append(m.Attributes, a)
	return r.Err()
}

// MarshalWire appends the message.
func (m *RateLimitRequest) MarshalWire(dst []byte) ([]byte, error) { return m.append(dst), nil }

func (m *RateLimitRequest) append(dst []byte) []byte {
	dst = grpcwire.AppendText(dst, 1, m.Rule)
	if m.User != "" || m.IP != "" || m.APIKey != "" {
		var start int
		dst, start = grpcwire.Begin(dst, 2)
		dst = grpcwire.AppendText(dst, 1, m.User)
		dst = grpcwire.AppendText(dst, 2, m.IP)
		dst = grpcwire.AppendText(dst, 3, m.APIKey)
		dst = grpcwire.End(dst, start)
	}
	for i := range m.Attributes {
		var start int
		dst, start = grpcwire.Begin(dst, 3)
		dst = grpcwire.AppendText(dst, 1, m.Attributes[i].Name)
		dst = grpcwire.AppendText(dst, 2, m.Attributes[i].Value)
		dst = grpcwire.End(dst, start)
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

	buffer []byte
}

// UnmarshalWire reads the message.
func (m *RateLimitResponse) UnmarshalWire(b []byte) error {
	*m = RateLimitResponse{buffer: m.buffer[:0]}
	m.buffer = append(m.buffer, b...)
	return m.read(grpcwire.NewReader(m.buffer))
}

func (m *RateLimitResponse) read(r grpcwire.Reader) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			m.Passed = r.Varint() != 0
		case 2<<3 | grpcwire.VarintType:
			m.Limit = int64(r.Varint())
		case 3<<3 | grpcwire.VarintType:
			m.Remaining = int64(r.Varint())
		case 4<<3 | grpcwire.BytesType:
			m.HasReset = true
			r.Leave(m.readReset(r.Enter()))
		case 5<<3 | grpcwire.VarintType:
			m.RetryAfterMs = int64(r.Varint())
		case 6<<3 | grpcwire.VarintType:
			m.DelayMs = int64(r.Varint())
		case 7<<3 | grpcwire.BytesType:
			m.Rule = r.Text()
		case 8<<3 | grpcwire.BytesType:
			lease := r.Text()
			m.Lease = []byte(lease)
		case 9<<3 | grpcwire.VarintType:
			m.Degraded = r.Varint() != 0
		case 10<<3 | grpcwire.VarintType:
			m.Reason = int32(r.Varint())
		case 11<<3 | grpcwire.VarintType:
			m.HTTPStatus = int32(r.Varint())
		case 12<<3 | grpcwire.VarintType:
			m.Drop = r.Varint() != 0
		case 15<<3 | grpcwire.BytesType:
			r.Leave(m.readError(r.Enter()))
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

func (m *RateLimitResponse) readReset(r grpcwire.Reader) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			m.ResetSeconds = int64(r.Varint())
		case 2<<3 | grpcwire.VarintType:
			m.ResetNanos = int32(r.Varint())
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

func (m *RateLimitResponse) readError(r grpcwire.Reader) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			m.ErrorCode = int32(r.Varint())
		case 2<<3 | grpcwire.BytesType:
			m.ErrorMessage = r.Text()
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

// MarshalWire appends the message.
func (m *RateLimitResponse) MarshalWire(dst []byte) ([]byte, error) { return m.append(dst), nil }

func (m *RateLimitResponse) append(dst []byte) []byte {
	dst = grpcwire.AppendBool(dst, 1, m.Passed)
	dst = grpcwire.AppendVarint(dst, 2, uint64(m.Limit))
	dst = grpcwire.AppendVarint(dst, 3, uint64(m.Remaining))
	if m.HasReset {
		var start int
		dst, start = grpcwire.Begin(dst, 4)
		dst = grpcwire.AppendVarint(dst, 1, uint64(m.ResetSeconds))
		dst = grpcwire.AppendVarint(dst, 2, uint64(m.ResetNanos))
		dst = grpcwire.End(dst, start)
	}
	dst = grpcwire.AppendVarint(dst, 5, uint64(m.RetryAfterMs))
	dst = grpcwire.AppendVarint(dst, 6, uint64(m.DelayMs))
	dst = grpcwire.AppendText(dst, 7, m.Rule)
	dst = grpcwire.AppendText(dst, 8, m.Lease)
	dst = grpcwire.AppendBool(dst, 9, m.Degraded)
	dst = grpcwire.AppendVarint(dst, 10, uint64(m.Reason))
	dst = grpcwire.AppendVarint(dst, 11, uint64(m.HTTPStatus))
	dst = grpcwire.AppendBool(dst, 12, m.Drop)
	if m.ErrorCode != 0 {
		var start int
		dst, start = grpcwire.Begin(dst, 15)
		dst = grpcwire.AppendVarint(dst, 1, uint64(m.ErrorCode))
		dst = grpcwire.AppendText(dst, 2, m.ErrorMessage)
		dst = grpcwire.End(dst, start)
	}
	return dst
}
