package h2

import (
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// maxContinuations is the maximum number of CONTINUATION frames of a header block.
	maxContinuations = 64
	// maxBlockFactor is the maximum size of an encoded header block, as a multiple of MaxHeaderBytes.
	maxBlockFactor = 2
)

// A headerBlock is the header block that is being read.
type headerBlock struct {
	open          bool // a CONTINUATION frame must follow
	stream        uint32
	end           bool // the block ends the stream: no body follows
	malformed     bool // the priority makes the stream depend on itself
	encoded       int  // bytes of the encoded block so far
	continuations int
	fields        []hpack.HeaderField
	size          int // size of the decoded header, as SETTINGS_MAX_HEADER_LIST_SIZE counts it
	limit         int
}

// keptFields is the maximum number of fields whose memory is reused.
const keptFields = 72

func (b *headerBlock) begin(stream uint32, end bool) {
	fields := b.fields
	if cap(fields) > keptFields {
		fields = nil
	}
	*b = headerBlock{open: true, stream: stream, end: end, fields: fields[:0], limit: b.limit}
}

// add adds a decoded field. If the header is too large, add only counts the field.
func (b *headerBlock) add(f hpack.HeaderField) {
	if b.size += int(f.Size()); !b.tooLarge() {
		b.fields = append(b.fields, f)
	}
}

func (b *headerBlock) tooLarge() bool { return b.size > b.limit }

func (c *Conn) processHeaders(f *frame) error {
	b := &c.reader.block
	if !f.unpad() {
		return &connError{http2.ErrCodeProtocol, "HEADERS has more padding than payload"}
	}
	dependency := uint32(0)
	if f.has(http2.FlagHeadersPriority) {
		if len(f.payload) < 5 {
			return &connError{http2.ErrCodeFrameSize, "HEADERS is too short for its priority"}
		}
		dependency = uint32At(f.payload) & maxStreamID
		f.payload = f.payload[5:]
	}
	if f.stream%2 == 0 {
		return &connError{http2.ErrCodeProtocol, "HEADERS of a client on a stream with an even number"}
	}
	b.begin(f.stream, f.has(http2.FlagHeadersEndStream))
	b.malformed = dependency == f.stream
	return c.decode(f)
}

func (c *Conn) processContinuation(f *frame) error {
	b := &c.reader.block
	if !b.open {
		return &connError{http2.ErrCodeProtocol, "CONTINUATION without HEADERS"}
	}
	if b.continuations++; b.continuations > maxContinuations {
		return &connError{http2.ErrCodeEnhanceYourCalm, "too many CONTINUATION frames"}
	}
	if len(f.payload) == 0 && !f.has(http2.FlagContinuationEndHeaders) {
		c.mu.Lock()
		err := c.spend(budgetMax / 10)
		c.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return c.decode(f)
}

// decode decodes a part of a header block. It must also decode blocks that are not used, because each block changes the
// dynamic table, which later blocks use.
func (c *Conn) decode(f *frame) error {
	r, b := &c.reader, &c.reader.block
	if b.encoded += len(f.payload); b.encoded > maxBlockFactor*b.limit {
		return &connError{http2.ErrCodeEnhanceYourCalm, "a header block is too large"}
	}
	if _, err := r.decoder.Write(f.payload); err != nil {
		return &connError{http2.ErrCodeCompression, err.Error()}
	}
	if !f.has(http2.FlagHeadersEndHeaders) {
		return nil
	}
	b.open = false
	if err := r.decoder.Close(); err != nil {
		return &connError{http2.ErrCodeCompression, err.Error()}
	}
	return c.processBlock(b)
}

// processBlock processes a complete header block: a request, or trailers.
func (c *Conn) processBlock(b *headerBlock) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil { // a write has failed and ended all streams, so a new stream would never end
		return c.err
	}
	if st := c.streams[b.stream]; st != nil {
		return c.processTrailers(st, b)
	}
	if c.drain.final && b.stream > c.drain.last { // GOAWAY has told the client that this stream is not served
		c.lastID = max(c.lastID, b.stream)
		c.resets.add(b.stream)
		return c.spend(1)
	}
	if b.stream <= c.lastID {
		if c.resets.has(b.stream) {
			return c.spend(1)
		}
		return &connError{http2.ErrCodeStreamClosed, "HEADERS for a stream that has ended"}
	}
	if c.handlers == 0 && !c.link.States.Busy() {
		return errEnded
	}
	c.lastID = b.stream
	if st := c.accept(b); st != nil {
		st.open(b)
		return nil
	}
	if c.handlers == 0 {
		c.link.States.Idle(false)
	}
	return c.spend(1)
}

// accept returns a stream for a request. It resets the stream and returns nil if the request is
// malformed or there are too many streams. c.mu is held.
func (c *Conn) accept(b *headerBlock) *stream {
	switch {
	case b.malformed:
		c.reset(b.stream, http2.ErrCodeProtocol)
		return nil
	case c.handlers >= c.server.MaxStreams:
		c.reset(b.stream, http2.ErrCodeRefusedStream)
		return nil
	}
	st := c.server.stream()
	st.begin(c, b)
	if st.request.fill(c, b) || b.tooLarge() {
		return st
	}
	st.release()
	c.reset(b.stream, http2.ErrCodeProtocol)
	return nil
}

// processTrailers processes the trailers of a request. c.mu is held.
func (c *Conn) processTrailers(st *stream, b *headerBlock) error {
	body := st.body
	switch {
	case body == nil || body.ended:
		c.reset(b.stream, http2.ErrCodeStreamClosed)
		return c.spend(1)
	case !b.end, b.malformed, b.tooLarge(), !body.takeTrailers(c, b.fields):
		c.reset(b.stream, http2.ErrCodeProtocol)
		return c.spend(1)
	}
	return c.endBody(st)
}

// endBody ends the body of a request. c.mu is held.
func (c *Conn) endBody(st *stream) error {
	if left := st.body.left; left > 0 {
		c.reset(st.id, http2.ErrCodeProtocol) // the body is shorter than its Content-Length
		return c.spend(1)
	}
	st.body.ended = true
	st.body.wake.Broadcast()
	return nil
}

func (c *Conn) processData(f *frame) error {
	size := len(f.payload)
	end := f.has(http2.FlagDataEndStream)
	if !f.unpad() {
		return &connError{http2.ErrCodeProtocol, "DATA has more padding than payload"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isIdle(f.stream) {
		return &connError{http2.ErrCodeProtocol, "DATA for a stream that does not exist"}
	}
	if !c.inflow.take(size) {
		return &connError{http2.ErrCodeFlowControl, "DATA exceeds the window of the connection"}
	}
	st := c.streams[f.stream]
	var body *body
	if st != nil {
		body = st.body
	}
	switch {
	case st == nil && c.resets.has(f.stream):
		c.giveConnWindow(size)
		return c.spendIf(size < smallUpdate, 1)
	case st == nil, body == nil, body.ended:
		c.giveConnWindow(size)
		c.reset(f.stream, http2.ErrCodeStreamClosed)
		return c.spend(1)
	case !body.inflow.take(size):
		c.giveConnWindow(size)
		c.reset(f.stream, http2.ErrCodeFlowControl)
		return c.spend(1)
	case !body.count(len(f.payload)):
		c.giveConnWindow(size)
		c.reset(f.stream, http2.ErrCodeProtocol)
		return c.spend(1)
	}
	if body.closed {
		c.giveConnWindow(size) // the bytes are discarded
	} else {
		body.received.add(c.server, f.payload)
		c.giveBodyWindow(body, size-len(f.payload)) // padding is discarded: the client may send as much again
	}
	if end {
		return c.endBody(st)
	}
	body.wake.Broadcast()
	c.useful++ // increases the budget
	// An empty frame is not useful, so it also takes back the credit of the line above.
	return c.spendIf(len(f.payload) == 0, 1+usefulCredit)
}

// giveBodyWindow must be called when n bytes of body b were read. It allows the client to send n more bytes. c.mu is
// held.
func (c *Conn) giveBodyWindow(b *body, n int) {
	if n == 0 {
		return
	}
	c.giveConnWindow(n)
	if b.ended || b.closed {
		return // the stream needs no window: no more bytes of the body are expected
	}
	if n := b.inflow.give(n); n > 0 {
		c.queue(appendWindowUpdate(c.frames(), b.id, n))
	}
}
