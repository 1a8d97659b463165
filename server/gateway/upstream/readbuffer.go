package upstream

import "sync"

const (
	headBufferSize = 16 << 10 // the initial size of a buffer, enough for most heads
	maxReusedSize  = 64 << 10 // buffers that grew beyond this, for a large head, are not reused
)

// A bodyBuffer is a pooled buffer for reading bodies that are larger than headBufferSize.
type bodyBuffer [32 << 10]byte

var bodyBuffers = sync.Pool{New: func() any { return new(bodyBuffer) }}

// A readBuffer holds the bytes that were read from the connection and not yet consumed.
type readBuffer struct {
	buf   []byte
	r, w  int         // the unconsumed bytes are buf[r:w]
	large *bodyBuffer // the array of buf, if it is from bodyBuffers; else nil
}

func (b *readBuffer) bytes() []byte { return b.buf[b.r:b.w] }

func (b *readBuffer) isEmpty() bool { return b.r == b.w }

// consume removes the first n bytes.
func (b *readBuffer) consume(n int) { b.r += n }

// available returns the unused end of the buffer, for the next read. If the buffer is full, it makes room first.
func (b *readBuffer) available() []byte {
	switch {
	case b.buf == nil:
		b.buf = make([]byte, headBufferSize)
	case b.r == b.w:
		b.r, b.w = 0, 0
	case b.w == len(b.buf) && b.r > 0:
		b.w = copy(b.buf, b.bytes())
		b.r = 0
	case b.w == len(b.buf):
		buf := make([]byte, 2*len(b.buf))
		copy(buf, b.buf)
		b.returnLarge()
		b.buf = buf
	}
	return b.buf[b.w:]
}

// grow replaces an empty buffer by a bodyBuffer, unless the buffer is already as large.
func (b *readBuffer) grow() {
	if b.large == nil && b.isEmpty() && len(b.buf) < len(bodyBuffer{}) {
		b.large = bodyBuffers.Get().(*bodyBuffer)
		b.buf, b.r, b.w = b.large[:], 0, 0
	}
}

func (b *readBuffer) returnLarge() {
	if b.large != nil {
		bodyBuffers.Put(b.large)
		b.large = nil
		b.buf = nil
	}
}

// reset empties the buffer for the next round trip.
func (b *readBuffer) reset() {
	b.returnLarge()
	if len(b.buf) > maxReusedSize {
		b.buf = nil
	}
	b.r, b.w = 0, 0
}
