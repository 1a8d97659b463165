package downstream

import "sync"

const (
	maxHead  = 16 << 10 // maximum size of the head of a request that this package serves
	keptHead = 4 << 10  // maximum size of a head whose memory is reused

	fewFields  = 8  // initial size of header maps; a map of up to 8 entries takes one allocation
	manyFields = 64 // maximum number of fields of a header whose memory is reused
)

// A readBuffer has the bytes that were read and not yet used. While it is empty, it needs no memory.
type readBuffer struct {
	pool *sync.Pool // of *[maxHead]byte
	buf  []byte
	r, w int // the unused bytes are buf[r:w]
}

func (b *readBuffer) bytes() []byte { return b.buf[b.r:b.w] }
func (b *readBuffer) empty() bool   { return b.r == b.w }
func (b *readBuffer) consume(n int) { b.r += n }

// maxBlanks is the maximum number of bytes of line breaks after the body of a POST, which some clients send. net/http
// has the same limit.
const maxBlanks = 4

// skipBlanks skips line breaks, at most *left bytes, and subtracts the number of skipped bytes from *left.
func (b *readBuffer) skipBlanks(left *int) {
	for *left > 0 && b.r < b.w && (b.buf[b.r] == '\r' || b.buf[b.r] == '\n') {
		b.r++
		*left--
	}
}

// full reports whether there is no room after the last byte that was read.
func (b *readBuffer) full() bool { return b.buf != nil && b.w == len(b.buf) }

// release returns the memory of an empty buffer to the pool.
func (b *readBuffer) release() {
	if b.buf != nil {
		b.pool.Put((*[maxHead]byte)(b.buf))
	}
	b.buf, b.r, b.w = nil, 0, 0
}

// advance must be called after n bytes were read into room.
func (b *readBuffer) advance(n int) { b.w += n }

// room returns the free part of the buffer. If the buffer is full, it first moves the unused bytes to the beginning.
func (b *readBuffer) room() []byte {
	switch {
	case b.buf == nil:
		memory, ok := b.pool.Get().(*[maxHead]byte)
		if !ok {
			memory = new([maxHead]byte)
		}
		b.buf = memory[:]
	case b.full():
		b.w = copy(b.buf, b.bytes())
		b.r = 0
	}
	return b.buf[b.w:]
}
