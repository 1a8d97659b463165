package wirev1

import "github.com/headgate/headgate/proto/grpcwire"

// A BatchRateLimitRequest is headgate.v1.BatchRateLimitRequest.
type BatchRateLimitRequest struct {
	Requests []RateLimitRequest
	// Max is the maximum number of requests that UnmarshalWire reads. If there are more, it sets TooMany and omits the
	// rest.
	Max     int
	TooMany bool

	buffer []byte
}

// UnmarshalWire reads the message.
func (m *BatchRateLimitRequest) UnmarshalWire(b []byte) error {
	m.buffer = append(m.buffer[:0], b...)
	m.Requests, m.TooMany = m.Requests[:0], false
	r := grpcwire.NewReader(m.buffer)
	for tag := r.Next(); tag != 0; tag = r.Next() {
		if tag != 1<<3|grpcwire.BytesType {
			r.Skip(tag)
			continue
		}
		if len(m.Requests) == m.Max {
			m.TooMany = true
			return nil
		}
		q := m.add()
		q.reset()
		r.Leave(q.read(r.Enter()))
	}
	return r.Err()
}

// BufferSize returns the size of the buffer that the message keeps for reuse, in bytes.
func (m *BatchRateLimitRequest) BufferSize() int { return cap(m.buffer) }

// add appends a request and returns it. It may have the content of a request that was read earlier.
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
	dst, start := grpcwire.Begin(dst, 1)
	return grpcwire.End(m.append(dst), start)
}

// AppendResponse appends a response to a BatchRateLimitResponse.
func AppendResponse(dst []byte, m *RateLimitResponse) []byte {
	dst, start := grpcwire.Begin(dst, 1)
	return grpcwire.End(m.append(dst), start)
}

// A BatchRateLimitResponse is headgate.v1.BatchRateLimitResponse.
type BatchRateLimitResponse struct {
	Responses []RateLimitResponse
	// Max is the maximum number of responses that UnmarshalWire reads. If there are more, it sets TooMany and omits the
	// rest.
	Max     int
	TooMany bool

	buffer []byte
}

// UnmarshalWire reads the message.
func (m *BatchRateLimitResponse) UnmarshalWire(b []byte) error {
	m.buffer = append(m.buffer[:0], b...)
	m.Responses, m.TooMany = m.Responses[:0], false
	r := grpcwire.NewReader(m.buffer)
	for tag := r.Next(); tag != 0; tag = r.Next() {
		if tag != 1<<3|grpcwire.BytesType {
			r.Skip(tag)
			continue
		}
		if len(m.Responses) == m.Max {
			m.TooMany = true
			return nil
		}
		m.Responses = append(m.Responses, RateLimitResponse{})
		r.Leave(m.Responses[len(m.Responses)-1].read(r.Enter()))
	}
	return r.Err()
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

	buffer []byte
}

// UnmarshalWire reads the message.
func (m *StreamRequest) UnmarshalWire(b []byte) error {
	m.buffer = append(m.buffer[:0], b...)
	m.ID = 0
	m.Request.reset()
	r := grpcwire.NewReader(m.buffer)
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			m.ID = r.Varint()
		case 2<<3 | grpcwire.BytesType:
			r.Leave(m.Request.read(r.Enter()))
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

// MarshalWire appends the message.
func (m *StreamRequest) MarshalWire(dst []byte) ([]byte, error) {
	dst = grpcwire.AppendVarint(dst, 1, m.ID)
	dst, start := grpcwire.Begin(dst, 2)
	return grpcwire.End(m.Request.append(dst), start), nil
}

// A StreamResponse is headgate.v1.StreamResponse.
type StreamResponse struct {
	ID       uint64
	Response RateLimitResponse

	buffer []byte
}

// UnmarshalWire reads the message.
func (m *StreamResponse) UnmarshalWire(b []byte) error {
	m.buffer = append(m.buffer[:0], b...)
	m.ID, m.Response = 0, RateLimitResponse{}
	r := grpcwire.NewReader(m.buffer)
	for tag := r.Next(); tag != 0; tag = r.Next() {
		switch tag {
		case 1<<3 | grpcwire.VarintType:
			m.ID = r.Varint()
		case 2<<3 | grpcwire.BytesType:
			r.Leave(m.Response.read(r.Enter()))
		default:
			r.Skip(tag)
		}
	}
	return r.Err()
}

// MarshalWire appends the message.
func (m *StreamResponse) MarshalWire(dst []byte) ([]byte, error) {
	dst = grpcwire.AppendVarint(dst, 1, m.ID)
	dst, start := grpcwire.Begin(dst, 2)
	return grpcwire.End(m.Response.append(dst), start), nil
}
