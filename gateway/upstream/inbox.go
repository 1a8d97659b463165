package upstream

import "sync"

const (
	headBuffer = 8 << 10  // what is read at once at first: the head, and most often all of the response
	keptBuffer = 64 << 10 // larger ones, made for large heads, are not kept
)

// A bodyBuffer is for bodies that are larger than what a head is read into.
type bodyBuffer [32 << 10]byte

var bodyBuffers = sync.Pool{New: func() any { return new(bodyBuffer) }}

// An inbox has the bytes that were read and not yet used.
type inbox struct {
	buf   []byte
	r, w  int
	large *bodyBuffer // buf, if that is borrowed
}

func (b *inbox) bytes() []byte { return b.buf[b.r:b.w] }

func (b *inbox) empty() bool { return b.r == b.w }

// use takes n bytes out.
func (b *inbox) use(n int) { b.r += n }

// room returns where to read to. If it is full, it is made larger.
func (b *inbox) room() []byte {
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
		b.giveBack()
		b.buf = buf
	}
	return b.buf[b.w:]
}

// widen makes room for a body, if there is nothing left in it.
func (b *inbox) widen() {
	if b.large == nil && b.empty() && len(b.buf) < len(bodyBuffer{}) {
		b.large = bodyBuffers.Get().(*bodyBuffer)
		b.buf, b.r, b.w = b.large[:], 0, 0
	}
}

func (b *inbox) giveBack() {
	if b.large != nil {
		bodyBuffers.Put(b.large)
		b.large = nil
		b.buf = nil
	}
}

// reset empties it for the next exchange.
func (b *inbox) reset() {
	b.giveBack()
	if len(b.buf) > keptBuffer {
		b.buf = nil
	}
	b.r, b.w = 0, 0
}
