package wirev1

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate"
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
	// Most bounds the checks and operations that are read. If there are more, TooMany is set and the rest is missing.
	Most    int
	TooMany bool

	checks []headgate.Check // of all operations
	own    []byte
}

// UnmarshalWire reads the message.
func (m *DoRequest) UnmarshalWire(b []byte) error {
	m.own = append(m.own[:0], b...)
	m.Operations, m.checks, m.TooMany = m.Operations[:0], m.checks[:0], false
	r := reader{b: m.own}
	for tag := r.next(); tag != 0; tag = r.next() {
		if tag != 1<<3|text {
			r.skip(tag)
			continue
		}
		if len(m.Operations) == m.Most {
			m.TooMany = true
			return nil
		}
		from := len(m.checks)
		m.Operations = append(m.Operations, Operation{})
		op := &m.Operations[len(m.Operations)-1]
		inner := r.enter()
		m.readOperation(&inner, op)
		r.leave(&inner)
		op.Checks = m.checks[from:len(m.checks):len(m.checks)]
		if m.TooMany {
			return nil
		}
	}
	return r.err
}

func (m *DoRequest) readOperation(r *reader, op *Operation) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			op.Verb = Verb(small(r.varint()))
		case 2<<3 | text:
			if len(m.checks) == m.Most {
				m.TooMany = true
				return
			}
			m.checks = append(m.checks, headgate.Check{})
			c := &m.checks[len(m.checks)-1]
			inner := r.enter()
			readCheck(&inner, c)
			r.leave(&inner)
		case 3<<3 | text:
			inner := r.enter()
			readReceipt(&inner, &op.Receipt)
			r.leave(&inner)
		default:
			r.skip(tag)
		}
	}
}

// small returns an enum value; all unknown ones become 0xff.
func small(v uint64) uint8 {
	if v := int32(v); v >= 0 && v < 0xff {
		return uint8(v)
	}
	return 0xff
}

func readCheck(r *reader, c *headgate.Check) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | text:
			c.Key = borrow(r.bytes())
		case 2<<3 | text:
			inner := r.enter()
			readLimit(&inner, &c.Limit)
			r.leave(&inner)
		case 3<<3 | varint:
			c.Cost = int64(r.varint())
		case 4<<3 | text:
			c.Owner = borrow(r.bytes())
		case 5<<3 | varint:
			c.Split = int(int32(r.varint()))
		case 6<<3 | varint:
			c.OnFailure = headgate.Policy(small(r.varint()))
		case 7<<3 | text:
			if c.Safe == nil {
				c.Safe = new(headgate.Limit)
			}
			inner := r.enter()
			readLimit(&inner, c.Safe)
			r.leave(&inner)
		default:
			r.skip(tag)
		}
	}
}

func readLimit(r *reader, l *headgate.Limit) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			l.Algorithm = headgate.Algorithm(small(r.varint()))
		case 2<<3 | varint:
			l.Count = int64(r.varint())
		case 3<<3 | varint:
			l.Period = time.Duration(r.varint())
		case 4<<3 | varint:
			l.Burst = int64(r.varint())
		case 5<<3 | varint:
			l.Buckets = int(int32(r.varint()))
		case 6<<3 | varint:
			l.TTL = time.Duration(r.varint())
		case 7<<3 | varint:
			l.Staggered = r.varint() != 0
		default:
			r.skip(tag)
		}
	}
}

func readReceipt(r *reader, into *headgate.Receipt) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			into.At = protowire.DecodeZigZag(r.varint())
		case 2<<3 | varint:
			into.Units = int64(r.varint())
		case 3<<3 | fixed64:
			into.Lease = r.fixed64()
		default:
			r.skip(tag)
		}
	}
}

// Kept returns the bytes that the message keeps for reuse.
func (m *DoRequest) Kept() int { return cap(m.own) }

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
	dst, whole := begin(dst, 1)
	dst = appendVarint(dst, 1, uint64(verb))
	for i := range checks {
		c := &checks[i]
		var start int
		dst, start = begin(dst, 2)
		dst = appendText(dst, 1, c.Key)
		dst = appendLimit(dst, 2, &c.Limit)
		dst = appendVarint(dst, 3, uint64(c.Cost))
		dst = appendText(dst, 4, c.Owner)
		dst = appendVarint(dst, 5, uint64(c.Split))
		dst = appendVarint(dst, 6, uint64(c.OnFailure))
		if c.Safe != nil {
			dst = appendLimit(dst, 7, c.Safe)
		}
		dst = end(dst, start)
	}
	if receipt != (headgate.Receipt{}) {
		dst = appendReceipt(dst, 3, receipt)
	}
	return end(dst, whole)
}

func appendLimit(dst []byte, number byte, l *headgate.Limit) []byte {
	dst, start := begin(dst, number)
	dst = appendVarint(dst, 1, uint64(l.Algorithm))
	dst = appendVarint(dst, 2, uint64(l.Count))
	dst = appendVarint(dst, 3, uint64(l.Period))
	dst = appendVarint(dst, 4, uint64(l.Burst))
	dst = appendVarint(dst, 5, uint64(l.Buckets))
	dst = appendVarint(dst, 6, uint64(l.TTL))
	dst = appendBool(dst, 7, l.Staggered)
	return end(dst, start)
}

func appendReceipt(dst []byte, number byte, r headgate.Receipt) []byte {
	dst, start := begin(dst, number)
	dst = appendVarint(dst, 1, protowire.EncodeZigZag(r.At))
	dst = appendVarint(dst, 2, uint64(r.Units))
	if r.Lease != 0 {
		dst = protowire.AppendFixed64(append(dst, 3<<3|byte(fixed64)), r.Lease)
	}
	return end(dst, start)
}
