package grpcwire

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// A Message writes and reads its own wire bytes.
type Message interface {
	// MarshalWire appends the message to dst and returns it.
	MarshalWire(dst []byte) ([]byte, error)
	// UnmarshalWire replaces the content of the message by b. It must not keep references to b.
	UnmarshalWire(b []byte) error
}

// Codec is an argument for grpc.ForceServerCodecV2 and grpc.ForceCodecV2. Its name is "proto", because it writes the
// same bytes as the protobuf library. It returns an error for values that are neither a Message nor a proto.Message.
var Codec encoding.CodecV2 = codec{}

type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case Message:
		buf := pool.Get(0)
		out, err := m.MarshalWire((*buf)[:0])
		if err != nil {
			pool.Put(buf)
			return nil, fmt.Errorf("marshal %T: %w", v, err)
		}
		*buf = out
		return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
	case proto.Message:
		size := proto.Size(m)
		buf := pool.Get(size)
		out, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buf)[:0], m)
		if err != nil {
			pool.Put(buf)
			return nil, fmt.Errorf("marshal %T: %w", v, err)
		}
		*buf = out
		return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
	default:
		return nil, fmt.Errorf("marshal %T: neither grpcwire.Message nor proto.Message", v)
	}
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	if len(data) == 1 {
		return unmarshal(data[0].ReadOnlyData(), v)
	}
	buffer := data.MaterializeToBuffer(pool)
	defer buffer.Free()
	return unmarshal(buffer.ReadOnlyData(), v)
}

func unmarshal(b []byte, v any) error {
	switch m := v.(type) {
	case Message:
		if err := m.UnmarshalWire(b); err != nil {
			return fmt.Errorf("unmarshal %T: %w", v, err)
		}
		return nil
	case proto.Message:
		if err := proto.Unmarshal(b, m); err != nil {
			return fmt.Errorf("unmarshal %T: %w", v, err)
		}
		return nil
	default:
		return fmt.Errorf("unmarshal %T: neither grpcwire.Message nor proto.Message", v)
	}
}

const (
	// minBuffer is the minimum capacity of a pooled buffer. It is greater than 1 KiB, because package mem does not
	// return buffers up to that size to the pool.
	minBuffer = 2 << 10
	// maxBuffer is the maximum capacity of a pooled buffer, so that a rare large message does not occupy memory forever.
	maxBuffer = 64 << 10
)

// pool holds buffers for encoded messages. Reused buffers grow to the usual size of messages.
var pool mem.BufferPool = &bufferPool{pool: sync.Pool{New: func() any {
	b := make([]byte, 0, minBuffer)
	return &b
}}}

type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) Get(length int) *[]byte {
	b := p.pool.Get().(*[]byte)
	if cap(*b) < length {
		p.pool.Put(b)
		larger := make([]byte, length, max(length, minBuffer))
		return &larger
	}
	*b = (*b)[:length]
	return b
}

func (p *bufferPool) Put(b *[]byte) {
	if c := cap(*b); c >= minBuffer && c <= maxBuffer {
		p.pool.Put(b)
	}
}
