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
	// UnmarshalWire sets the message to b and drops its previous content. It must copy parts of b that it keeps.
	UnmarshalWire(b []byte) error
}

// Codec is for grpc.ForceServerCodecV2 and grpc.ForceCodecV2. Its name is "proto", because it writes the same wire
// bytes as generated messages. Values that are neither a Message nor a proto.Message are an error.
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
	// minBuffer is above the size that mem pools (1 KiB): it would not return smaller buffers.
	minBuffer = 2 << 10
	// maxBuffer bounds the memory that rare large messages leave behind.
	maxBuffer = 64 << 10
)

// pool holds buffers that grow to the usual size of messages.
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
