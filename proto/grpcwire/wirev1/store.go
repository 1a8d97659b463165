package wirev1

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire"
)

// A Verb is headgate.v1.Verb.
type Verb uint8

// The verbs.
const (
	Take Verb = iota
	Charge
	Give
	Reset
	Renew
	Peek
	verbs // the number of verbs
)

// Known reports whether the verb exists.
func (v Verb) Known() bool { return v < verbs }

// An Operation is headgate.v1.Operation.
type Operation struct {
	Verb    Verb
	Checks  []headgate.Check
	Receipt headgate.Receipt
}

// A DoRequest is headgate.v1.DoRequest.
type DoRequest struct {
	Operations []Operation
	// Max is the maximum number of operations, and of checks in all of them, that UnmarshalWire reads. If there are more,
	// it sets TooMany and omits the rest.
	Max     int
	TooMany bool

	checks []headgate.Check // of all operations
	buffer []byte
}

// UnmarshalWire reads the message.
func (m *DoRequest) UnmarshalWire(b []byte) error {
	m.buffer = append(m.buffer[:0], b...)
	m.Operations, m.checks, m.TooMany = m.Operations[:0], m.checks[:0], false
	r := grpcwire.NewReader(m.buffer)
	for tag := r.Next(); tag != 0; tag = r.Next() {
		if tag != 1<<3|grpcwire.BytesType {
			r.Skip(tag)
			continue
		}
		if len(m.Operations) == m.Max {
			m.TooMany = true
			return nil
		}
		from := len(m.checks)
		m.Operations = append(m.Operations, Operation{})
		op := &m.Operations[len(m.Operations)-1]
		r.Leave(m.readOperation(r.Enter(), op))
		op.Checks = m.checks[from:len(m.checks):len(m.checks)]
		if m.TooMany {
			return nil
		}
	}
	return r.Err()
}

func (m *DoRequest) readOperation(r grpcwire.Reader, op *Operation) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			op.Verb = Verb(smallEnum(r.Varint()))
		case 2<<3 | grpcwire.BytesType:
			if len(m.checks) == m.Max {
				m.TooMany = true
				return r.Err()
			}
			m.checks = append(m.checks, headgate.Check{})
			c := &m.checks[len(m.checks)-1]
			r.Leave(readCheck(r.Enter(), c))
		case 3<<3 | grpcwire.BytesType:
			r.Leave(readReceipt(r.Enter(), &op.Receipt))
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

// smallEnum converts an enum value to a byte. Values that do not fit become 0xff, which no enum defines.
func smallEnum(v uint64) uint8 {
	if v := int32(v); v >= 0 && v < 0xff {
		return uint8(v)
	}
	return 0xff
}

func readCheck(r grpcwire.Reader, c *headgate.Check) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.BytesType:
			c.Key = grpcwire.Borrow(r.Bytes())
		case 2<<3 | grpcwire.BytesType:
			r.Leave(readLimit(r.Enter(), &c.Limit))
		case 3<<3 | grpcwire.VarintType:
			c.Cost = int64(r.Varint())
		case 4<<3 | grpcwire.BytesType:
			c.Owner = grpcwire.Borrow(r.Bytes())
		case 5<<3 | grpcwire.VarintType:
			c.Split = int(int32(r.Varint()))
		case 6<<3 | grpcwire.VarintType:
			c.OnFailure = headgate.Policy(smallEnum(r.Varint()))
		case 7<<3 | grpcwire.BytesType:
			if c.Safe == nil {
				c.Safe = new(headgate.Limit)
			}
			r.Leave(readLimit(r.Enter(), c.Safe))
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

func readLimit(r grpcwire.Reader, l *headgate.Limit) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			l.Algorithm = headgate.Algorithm(smallEnum(r.Varint()))
		case 2<<3 | grpcwire.VarintType:
			l.Count = int64(r.Varint())
		case 3<<3 | grpcwire.VarintType:
			l.Period = time.Duration(r.Varint())
		case 4<<3 | grpcwire.VarintType:
			l.Burst = int64(r.Varint())
		case 5<<3 | grpcwire.VarintType:
			l.Buckets = int(int32(r.Varint()))
		case 6<<3 | grpcwire.VarintType:
			l.TTL = time.Duration(r.Varint())
		case 7<<3 | grpcwire.VarintType:
			l.Staggered = r.Varint() != 0
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

func readReceipt(r grpcwire.Reader, dst *headgate.Receipt) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			dst.At = protowire.DecodeZigZag(r.Varint())
		case 2<<3 | grpcwire.VarintType:
			dst.Units = int64(r.Varint())
		case 3<<3 | grpcwire.Fixed64Type:
			dst.Lease = r.Fixed64()
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

// BufferSize returns the size of the buffer that the message keeps for reuse, in bytes.
func (m *DoRequest) BufferSize() int { return cap(m.buffer) }

// MarshalWire appends the message.
func (m *DoRequest) MarshalWire(dst []byte) ([]byte, error) {
	for i := range m.Operations {
		op := &m.Operations[i]
		dst = AppendOperation(dst, op.Verb, op.Checks, op.Receipt)
	}
	return dst, nil
}

// AppendOperation appends an operation to a DoRequest.
func AppendOperation(dst []byte, verb Verb, checks []headgate.Check, receipt headgate.Receipt) []byte {
	dst, whole := grpcwire.Begin(dst, 1)
	dst = grpcwire.AppendVarint(dst, 1, uint64(verb))
	for i := range checks {
		c := &checks[i]
		var start int
		dst, start = grpcwire.Begin(dst, 2)
		dst = grpcwire.AppendText(dst, 1, c.Key)
		dst = appendLimit(dst, 2, &c.Limit)
		dst = grpcwire.AppendVarint(dst, 3, uint64(c.Cost))
		dst = grpcwire.AppendText(dst, 4, c.Owner)
		dst = grpcwire.AppendVarint(dst, 5, uint64(c.Split))
		dst = grpcwire.AppendVarint(dst, 6, uint64(c.OnFailure))
		if c.Safe != nil {
			dst = appendLimit(dst, 7, c.Safe)
		}
		dst = grpcwire.End(dst, start)
	}
	if receipt != (headgate.Receipt{}) {
		dst = appendReceipt(dst, 3, receipt)
	}
	return grpcwire.End(dst, whole)
}

func appendLimit(dst []byte, number byte, l *headgate.Limit) []byte {
	dst, start := grpcwire.Begin(dst, number)
	dst = grpcwire.AppendVarint(dst, 1, uint64(l.Algorithm))
	dst = grpcwire.AppendVarint(dst, 2, uint64(l.Count))
	dst = grpcwire.AppendVarint(dst, 3, uint64(l.Period))
	dst = grpcwire.AppendVarint(dst, 4, uint64(l.Burst))
	dst = grpcwire.AppendVarint(dst, 5, uint64(l.Buckets))
	dst = grpcwire.AppendVarint(dst, 6, uint64(l.TTL))
	dst = grpcwire.AppendBool(dst, 7, l.Staggered)
	return grpcwire.End(dst, start)
}

func appendReceipt(dst []byte, number byte, r headgate.Receipt) []byte {
	dst, start := grpcwire.Begin(dst, number)
	dst = grpcwire.AppendVarint(dst, 1, protowire.EncodeZigZag(r.At))
	dst = grpcwire.AppendVarint(dst, 2, uint64(r.Units))
	if r.Lease != 0 {
		dst = protowire.AppendFixed64(append(dst, 3<<3|byte(grpcwire.Fixed64Type)), r.Lease)
	}
	return grpcwire.End(dst, start)
}
