package wirev1

import "google.golang.org/protobuf/encoding/protowire"

// A BatchRateLimitRequest is headgate.v1.BatchRateLimitRequest.
type BatchRateLimitRequest struct {
	Requests []RateLimitRequest
	// Most bounds the requests that are read. If there are more, TooMany is set and the rest is missing.
	Most    int
	TooMany bool

	own []byte
}

// UnmarshalWire reads the message.
func (m *BatchRateLimitRequest) UnmarshalWire(b []byte) error {
	m.own = append(m.own[:0], b...)
	m.Requests, m.TooMany = m.Requests[:0], false
	r := reader{b: m.own}
	for tag := r.next(); tag != 0; tag = r.next() {
		if tag != 1<<3|text {
			r.skip(tag)
			continue
		}
		if len(m.Requests) == m.Most {
			m.TooMany = true
			return nil
		}
		q := m.add()
		q.reset()
		inner := r.enter()
		q.read(&inner)
		r.leave(&inner)
	}
	return r.err
}

// Kept returns the bytes that the message keeps for reuse.
func (m *BatchRateLimitRequest) Kept() int { return cap(m.own) }

// add returns one more request, which may have old content.
func (m *BatchRateLimitRequest) add() *RateLimitRequest {
	if n := len(m.Requests); n < cap(m.Requests) {
		m.Requests = m.Requests[:n+1]
	} else {
		m.Requests = append(m.Requests, RateLimitRequest{})
	}
	return &m.Requests[len(m.Requests)-1]
}

// MarshalWire appends the message.
func (m *BatchRateLimitRequest) MarshalWire(dst []byte) ([]byte, error) {
	for i := range m.Requests {
		dst = AppendRequest(dst, &m.Requests[i])
	}
	return dst, nil
}

// AppendRequest appends a request to a BatchRateLimitRequest.
func AppendRequest(dst []byte, m *RateLimitRequest) []byte {
	dst, start := begin(dst, 1)
	return end(m.append(dst), start)
}

// AppendResponse appends a response to a BatchRateLimitResponse.
func AppendResponse(dst []byte, m *RateLimitResponse) []byte {
	dst, start := begin(dst, 1)
	return end(m.append(dst), start)
}

// A BatchRateLimitResponse is headgate.v1.BatchRateLimitResponse.
type BatchRateLimitResponse struct {
	Responses []RateLimitResponse
	// Most is as in a BatchRateLimitRequest.
	Most    int
	TooMany bool

	own []byte
}

// UnmarshalWire reads the message.
func (m *BatchRateLimitResponse) UnmarshalWire(b []byte) error {
	m.own = append(m.own[:0], b...)
	m.Responses, m.TooMany = m.Responses[:0], false
	r := reader{b: m.own}
	for tag := r.next(); tag != 0; tag = r.next() {
		if tag != 1<<3|text {
			r.skip(tag)
			continue
		}
		if len(m.Responses) == m.Most {
			m.TooMany = true
			return nil
		}
		m.Responses = append(m.Responses, RateLimitResponse{})
		inner := r.enter()
		m.Responses[len(m.Responses)-1].read(&inner)
		r.leave(&inner)
	}
	return r.err
}

// MarshalWire appends the message.
func (m *BatchRateLimitResponse) MarshalWire(dst []byte) ([]byte, error) {
	for i := range m.Responses {
		dst = AppendResponse(dst, &m.Responses[i])
	}
	return dst, nil
}

// A StreamRequest is headgate.v1.StreamRequest.
type StreamRequest struct {
	ID      uint64
	Request RateLimitRequest

	own []byte
}

// UnmarshalWire reads the message.
func (m *StreamRequest) UnmarshalWire(b []byte) error {
	m.own = append(m.own[:0], b...)
	m.ID = 0
	m.Request.reset()
	r := reader{b: m.own}
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			m.ID = r.varint()
		case 2<<3 | text:
			inner := r.enter()
			m.Request.read(&inner)
			r.leave(&inner)
		default:
			r.skip(tag)
		}
	}
	return r.err
}

// MarshalWire appends the message.
func (m *StreamRequest) MarshalWire(dst []byte) ([]byte, error) {
	dst = appendVarint(dst, 1, m.ID)
	dst, start := begin(dst, 2)
	return end(m.Request.append(dst), start), nil
}

// A StreamResponse is headgate.v1.StreamResponse.
type StreamResponse struct {
	ID       uint64
	Response RateLimitResponse

	own []byte
}

// UnmarshalWire reads the message.
func (m *StreamResponse) UnmarshalWire(b []byte) error {
	m.own = append(m.own[:0], b...)
	m.ID, m.Response = 0, RateLimitResponse{}
	r := reader{b: m.own}
	for tag := r.next(); tag != 0; tag = r.next() {
		switch tag {
		case 1<<3 | varint:
			m.ID = r.varint()
		case 2<<3 | text:
			inner := r.enter()
			m.Response.read(&inner)
			r.leave(&inner)
		default:
			r.skip(tag)
		}
	}
	return r.err
}

// MarshalWire appends the message.
func (m *StreamResponse) MarshalWire(dst []byte) ([]byte, error) {
	dst = appendVarint(dst, 1, m.ID)
	dst, start := begin(dst, 2)
	return end(m.Response.append(dst), start), nil
}

// Nothing is a message without fields, such as headgate.v1.ReleaseResponse. Unknown fields are skipped.
type Nothing struct{}

// UnmarshalWire reads the message.
func (*Nothing) UnmarshalWire(b []byte) error {
	for len(b) > 0 {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
	}
	return nil
}

// MarshalWire appends nothing.
func (*Nothing) MarshalWire(dst []byte) ([]byte, error) { return dst, nil }
