package wirev1

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate"
)

// A Fault is headgate.v1.Fault.
type Fault uint8

// The faults.
const (
	Unspecified Fault = iota
	InvalidLimit
	InvalidCheck
	Unsupported
	Full
	Closed
	Unavailable
	Forbidden
	Overloaded
)

// A Failure is headgate.v1.Failure.
type Failure struct {
	Fault                       Fault
	Message, Field, Value, Want string
}

// A Result is headgate.v1.Result.
type Result struct {
	Decisions []headgate.Decision
	Failure   Failure
	Failed    bool
}

// A DoResponse is headgate.v1.DoResponse.
type DoResponse struct {
	Results []Result
	// Most bounds the results and decisions that are read. If there are more, TooMany is set and the rest is missing.
	Most    int
	TooMany bool

	decisions []headgate.Decision // of all results
	own       []byte
}

// UnmarshalWire reads the message.
func (m *DoResponse) UnmarshalWire(b []byte) error {
	m.own = append(m.own[:0], b...)
	m.Results, m.decisions, m.TooMany = m.Results[:0], m.decisions[:0], false
	r := reader{b: m.own}
	for tag := r.next(); tag != 0; tag = r.next() {
		if tag != 1<<3|text {
			r.skip(tag)
			continue
		}
		if len(m.Results) == m.Most {
			m.TooMany = true
			return nil
		}
		from := len(m.decisions)
		m.Results = append(m.Results, Result{})
		result := &m.Results[len(m.Results)-1]
		inner := r.enter()
		m.readResult(&inner, result)
		r.leave(&inner)
		result.Decisions = m.decisions[from:len(m.decisions):len(m.decisions)]
		if m.TooMany {
			return nil
		}
	}
	return r.err
}

func (m *DoResponse) readResult(r *reader, result *Result) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | text:
			if len(m.decisions) == m.Most {
				m.TooMany = true
				return
			}
			m.decisions = append(m.decisions, headgate.Decision{})
			d := &m.decisions[len(m.decisions)-1]
			inner := r.enter()
			readDecision(&inner, d)
			r.leave(&inner)
		case 2<<3 | text:
			result.Failed = true
			inner := r.enter()
			readFailure(&inner, &result.Failure)
			r.leave(&inner)
		default:
			r.skip(tag)
		}
	}
}

func readDecision(r *reader, d *headgate.Decision) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			d.Allowed = r.varint() != 0
		case 2<<3 | varint:
			d.Degraded = r.varint() != 0
		case 3<<3 | varint:
			d.Limit = int64(r.varint())
		case 4<<3 | varint:
			d.Remaining = protowire.DecodeZigZag(r.varint())
		case 5<<3 | varint:
			d.RetryAfter = time.Duration(r.varint())
			if d.RetryAfter < 0 {
				d.RetryAfter = headgate.Never
			}
		case 6<<3 | varint:
			d.ResetAfter = time.Duration(r.varint())
		case 7<<3 | varint:
			d.Delay = time.Duration(r.varint())
		case 8<<3 | text:
			inner := r.enter()
			readReceipt(&inner, &d.Receipt)
			r.leave(&inner)
		default:
			r.skip(tag)
		}
	}
}

func readFailure(r *reader, f *Failure) {
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			f.Fault = Fault(small(r.varint()))
		case 2<<3 | text:
			f.Message = r.str()
		case 3<<3 | text:
			f.Field = r.str()
		case 4<<3 | text:
			f.Value = r.str()
		case 5<<3 | text:
			f.Want = r.str()
		default:
			r.skip(tag)
		}
	}
}

// MarshalWire appends the message.
func (m *DoResponse) MarshalWire(dst []byte) ([]byte, error) {
	for i := range m.Results {
		result := &m.Results[i]
		if result.Failed {
			dst = AppendFailure(dst, &result.Failure)
		} else {
			dst = AppendResult(dst, result.Decisions)
		}
	}
	return dst, nil
}

// AppendResult appends the result of a successful operation to a DoResponse.
func AppendResult(dst []byte, decisions []headgate.Decision) []byte {
	dst, whole := begin(dst, 1)
	for i := range decisions {
		var start int
		dst, start = begin(dst, 1)
		dst = end(appendDecision(dst, &decisions[i]), start)
	}
	return end(dst, whole)
}

func appendDecision(dst []byte, d *headgate.Decision) []byte {
	retry := d.RetryAfter
	if retry == headgate.Never {
		retry = -1
	}
	dst = appendBool(dst, 1, d.Allowed)
	dst = appendBool(dst, 2, d.Degraded)
	dst = appendVarint(dst, 3, uint64(d.Limit))
	dst = appendVarint(dst, 4, protowire.EncodeZigZag(d.Remaining))
	dst = appendVarint(dst, 5, uint64(retry))
	dst = appendVarint(dst, 6, uint64(d.ResetAfter))
	dst = appendVarint(dst, 7, uint64(d.Delay))
	if d.Receipt != (headgate.Receipt{}) {
		dst = appendReceipt(dst, 8, d.Receipt)
	}
	return dst
}

// AppendFailure appends the result of a failed operation to a DoResponse.
func AppendFailure(dst []byte, f *Failure) []byte {
	dst, whole := begin(dst, 1)
	dst, start := begin(dst, 2)
	dst = appendVarint(dst, 1, uint64(f.Fault))
	dst = appendText(dst, 2, f.Message)
	dst = appendText(dst, 3, f.Field)
	dst = appendText(dst, 4, f.Value)
	dst = appendText(dst, 5, f.Want)
	return end(end(dst, start), whole)
}
