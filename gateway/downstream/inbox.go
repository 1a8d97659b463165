package downstream

const (
	headBuffer = 4 << 10
	maxHead    = 16 << 10

	fewFields  = 8  // up to so many, maps are faster
	manyFields = 64 // above, memory that was made for them is not kept
)

// An inbox has the bytes that were read and not yet used.
type inbox struct {
	buf  []byte
	r, w int
}

func (b *inbox) bytes() []byte { return b.buf[b.r:b.w] }
func (b *inbox) empty() bool   { return b.r == b.w }
func (b *inbox) use(n int)     { b.r += n }

// maxBlanks is how many bytes of line breaks may follow a body: there are clients that send one. It is net/http's.
const maxBlanks = 4

// skip skips as many.
func (b *inbox) skip(most *int) {
	for *most > 0 && b.r < b.w && (b.buf[b.r] == '\r' || b.buf[b.r] == '\n') {
		b.r++
		*most--
	}
}

// full reports whether it cannot take more without being made larger.
func (b *inbox) full() bool { return b.w == len(b.buf) }

// reset makes an empty one ready for the next request. One that was made large for a long header is not kept.
func (b *inbox) reset() {
	b.r, b.w = 0, 0
	if len(b.buf) > headBuffer {
		b.buf = nil
	}
}

// room returns where to read to. If it is full, it is made larger.
func (b *inbox) room() []byte {
	switch {
	case b.buf == nil:
		b.buf = make([]byte, headBuffer)
	case b.w == len(b.buf) && b.r > 0:
		b.w = copy(b.buf, b.bytes())
		b.r = 0
	case b.w == len(b.buf):
		buf := make([]byte, 2*len(b.buf))
		copy(buf, b.buf)
		b.buf = buf
	}
	return b.buf[b.w:]
}
