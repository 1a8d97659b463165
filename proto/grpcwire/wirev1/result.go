package wirev1

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/proto/grpcwire"
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
	// Max is the maximum number of results, and of decisions in all of them, that UnmarshalWire reads. If there are more,
	// it sets TooMany and omits the rest.
	Max     int
	TooMany bool

	decisions []headgate.Decision // of all results
	buffer    []byte
}

// UnmarshalWire reads the message.
func (m *DoResponse) UnmarshalWire(b []byte) error {
	m.buffer = append(m.buffer[:0], b...)
	m.Results, m.decisions, m.TooMany = m.Results[:0], m.decisions[:0], false
	r := grpcwire.NewReader(m.buffer)
	for tag := r.Next(); tag != 0; tag = r.Next() {
		if tag != 1<<3|grpcwire.BytesType {
			r.Skip(tag)
			continue
		}
		if len(m.Results) == m.Max {
			m.TooMany = true
			return nil
		}
		from := len(m.decisions)
		m.Results = append(m.Results, Result{})
		result := &m.Results[len(m.Results)-1]
		r.Leave(m.readResult(r.Enter(), result))
		result.Decisions = m.decisions[from:len(m.decisions):len(m.decisions)]
		if m.TooMany {
			return nil
		}
	}
	return r.Err()
}

func (m *DoResponse) readResult(r grpcwire.Reader, result *Result) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.BytesType:
			if len(m.decisions) == m.Max {
				m.TooMany = true
				return r.Err()
			}
			m.decisions = append(m.decisions, headgate.Decision{})
			d := &m.decisions[len(m.decisions)-1]
			r.Leave(readDecision(r.Enter(), d))
		case 2<<3 | grpcwire.BytesType:
			result.Failed = true
			r.Leave(readFailure(r.Enter(), &result.Failure))
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

func readDecision(r grpcwire.Reader, d *headgate.Decision) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			d.Allowed = r.Varint() != 0
		case 2<<3 | grpcwire.VarintType:
			d.Degraded = r.Varint() != 0
		case 3<<3 | grpcwire.VarintType:
			d.Limit = int64(r.Varint())
		case 4<<3 | grpcwire.VarintType:
			d.Remaining = protowire.DecodeZigZag(r.Varint())
		case 5<<3 | grpcwire.VarintType:
			d.RetryAfter = time.Duration(r.Varint())
			if d.RetryAfter < 0 {
				d.RetryAfter = headgate.Never
			}
		case 6<<3 | grpcwire.VarintType:
			d.ResetAfter = time.Duration(r.Varint())
		case 7<<3 | grpcwire.VarintType:
			d.Delay = time.Duration(r.Varint())
		case 8<<3 | grpcwire.BytesType:
			r.Leave(readReceipt(r.Enter(), &d.Receipt))
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

func readFailure(r grpcwire.Reader, f *Failure) error {
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			f.Fault = Fault(smallEnum(r.Varint()))
		case 2<<3 | grpcwire.BytesType:
			f.Message = r.Text()
		case 3<<3 | grpcwire.BytesType:
			f.Field = r.Text()
		case 4<<3 | grpcwire.BytesType:
			f.Value = r.Text()
		case 5<<3 | grpcwire.BytesType:
			f.Want = r.Text()
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
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
	dst, resultStart := grpcwire.Begin(dst, 1)
	for i := range decisions {
		var start int
		dst, start = grpcwire.Begin(dst, 1)
		dst = grpcwire.End(appendDecision(dst, &decisions[i]), start)
	}
	return grpcwire.End(dst, resultStart)
}

func appendDecision(dst []byte, d *headgate.Decision) []byte {
	retry := d.RetryAfter
	if retry == headgate.Never {
		retry = -1
	}
	dst = grpcwire.AppendBool(dst, 1, d.Allowed)
	dst = grpcwire.AppendBool(dst, 2, d.Degraded)
	dst = grpcwire.AppendVarint(dst, 3, uint64(d.Limit))
	dst = grpcwire.AppendVarint(dst, 4, protowire.EncodeZigZag(d.Remaining))
	dst = grpcwire.AppendVarint(dst, 5, uint64(retry))
	dst = grpcwire.AppendVarint(dst, 6, uint64(d.ResetAfter))
	dst = grpcwire.AppendVarint(dst, 7, uint64(d.Delay))
	if d.Receipt != (headgate.Receipt{}) {
		dst = appendReceipt(dst, 8, d.Receipt)
	}
	return dst
}

// AppendFailure appends the result of a failed operation to a DoResponse.
func AppendFailure(dst []byte, f *Failure) []byte {
	dst, resultStart := grpcwire.Begin(dst, 1)
	dst, start := grpcwire.Begin(dst, 2)
	dst = grpcwire.AppendVarint(dst, 1, uint64(f.Fault))
	dst = grpcwire.AppendText(dst, 2, f.Message)
	dst = grpcwire.AppendText(dst, 3, f.Field)
	dst = grpcwire.AppendText(dst, 4, f.Value)
	dst = grpcwire.AppendText(dst, 5, f.Want)
	return grpcwire.End(grpcwire.End(dst, start), resultStart)
}
