package upstream

import "sync"

const (
	headBuffer      = 16 << 10 // the initial size, enough for most responses
	maxReusedBuffer = 64 << 10 // larger buffers, for large heads, are not reused
)

// A bodyBuffer is for bodies that are larger than headBuffer.
type bodyBuffer [32 << 10]byte

var bodyBuffers = sync.Pool{New: func() any { return new(bodyBuffer) }}

// A readBuffer has the bytes that were read and not yet used.
type readBuffer struct {
	buf   []byte
	r, w  int
	large *bodyBuffer // buf, if that is from bodyBuffers
}

func (b *readBuffer) bytes() []byte { return b.buf[b.r:b.w] }

func (b *readBuffer) empty() bool { return b.r == b.w }

// consume removes n bytes.
func (b *readBuffer) consume(n int) { b.r += n }

// free returns the unused end of the buffer. If the buffer is full, it is first enlarged.
func (b *readBuffer) free() []byte {
	switch {
	case b.buf == nil:
		b.buf = make([]byte, headBuffer)
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

// grow replaces an empty buffer by a larger one for a body.
func (b *readBuffer) grow() {
	if b.large == nil && b.empty() && len(b.buf) < len(bodyBuffer{}) {
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
	if len(b.buf) > maxReusedBuffer {
		b.buf = nil
	}
	b.r, b.w = 0, 0
}
