package h2

import (
	"errors"
	"os"
	"runtime"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// readSize is the size of a read buffer. It has room for one frame and the beginning of the next.
const readSize = 32 << 10

// A reader is the state of the reading goroutine. No other goroutine uses it.
type reader struct {
	buf         *[readSize]byte       // nil while the connection is idle
	r, w        int                   // buf[r:w] was read from the connection and not yet parsed
	first       [frameHeaderSize]byte // receives the first bytes after an idle time, because then buf is nil
	frame       frame
	decoder     *hpack.Decoder
	block       headerBlock
	names       map[string]string // canonical names of fields that are not common
	budget      budget
	unacked     int  // sent SETTINGS frames that the client has not acknowledged
	gotSettings bool // the first frame has arrived
	timing      readTiming
}

// readTiming has the times from which the deadlines of reads are computed.
type readTiming struct {
	deadline time.Duration // the read deadline that is set; 0 if there is none
	partial  time.Duration // when the incomplete frame or header block began; 0 if there is none
	arrived  bool          // bytes have arrived since quiet
	quiet    time.Duration // when arrived was last set to false
	pinged   time.Duration // when the unacknowledged ping was sent; 0 if there is none
}

// release gives back the read buffer.
func (r *reader) release(s *Server) {
	if r.buf != nil {
		s.buffers.Put(r.buf)
	}
	r.buf, r.r, r.w = nil, 0, 0
}

// acquire gets a read buffer.
func (r *reader) acquire(s *Server) {
	if r.buf != nil {
		return
	}
	buf, ok := s.buffers.Get().(*[readSize]byte)
	if !ok {
		buf = new([readSize]byte)
	}
	r.buf = buf
}

func (r *reader) bytes() []byte {
	if r.buf == nil {
		return nil
	}
	return r.buf[r.r:r.w]
}

// room returns the free part of the buffer. It first moves the unparsed bytes to the beginning of
// the buffer.
func (r *reader) room() []byte {
	if r.r > 0 {
		r.w = copy(r.buf[:], r.buf[r.r:r.w])
		r.r = 0
	}
	return r.buf[r.w:]
}

// readFrames reads and processes frames until the connection ends. The error is the reason for the end.
func (c *Conn) readFrames() error {
	r := &c.reader
	r.acquire(c.server)
	if len(c.link.Rest) > readSize {
		return &connError{http2.ErrCodeProtocol, "too many bytes were read already"}
	}
	r.w = copy(r.buf[:], c.link.Rest)
	c.link.Rest = nil
	if err := c.readPreface(); err != nil {
		return err
	}
	for {
		n, err := c.nextFrame()
		if err != nil {
			return err
		}
		if err := c.process(&r.frame); err != nil {
			return err
		}
		if r.r += n; !r.block.open {
			r.timing.partial = 0
		}
	}
}

func (c *Conn) readPreface() error {
	r := &c.reader
	const preface = http2.ClientPreface
	for {
		b := r.bytes()
		n := min(len(b), len(preface))
		if string(b[:n]) != preface[:n] {
			return &connError{http2.ErrCodeProtocol, "the preface is missing"}
		}
		if n == len(preface) {
			r.r += n
			return nil
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

// nextFrame reads the next frame, and returns its size.
func (c *Conn) nextFrame() (int, error) {
	r := &c.reader
	for {
		b := r.bytes()
		if len(b) >= frameHeaderSize {
			length := r.frame.parseHeader(b)
			if length > maxFrameSize {
				return 0, &connError{http2.ErrCodeFrameSize, "the frame is too large"}
			}
			if size := frameHeaderSize + length; len(b) >= size {
				r.frame.payload = b[frameHeaderSize:size]
				return size, nil
			}
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
}

// fill reads more bytes.
func (c *Conn) fill() error {
	r := &c.reader
	idle, err := c.beforeRead()
	if err != nil {
		return err
	}
	room := r.first[:]
	if !idle {
		room = r.room()
	}
	for {
		n, err := c.link.Conn.Read(room)
		if n > 0 {
			r.timing.arrived = true
			if idle { // the next read gets further bytes, which stay in the buffer of the socket or of TLS
				r.acquire(c.server)
				copy(r.buf[:], r.first[:n])
				r.w = n
			} else {
				r.w += n
			}
			return nil
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return errClientEnded
		}
		if err := c.readExpired(); err != nil {
			return err
		}
	}
}

// beforeRead sends queued frames and sets the deadline before a read. If the connection is idle, it
// releases the read buffer.
func (c *Conn) beforeRead() (idle bool, err error) {
	r := &c.reader
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return false, c.err
	}
	c.flushSoon()
	streams := c.handlers
	c.mu.Unlock()
	switch empty := len(r.bytes()) == 0; {
	case empty && !r.block.open && r.gotSettings:
		if idle = streams == 0; idle {
			r.release(c.server)
		}
	case !r.block.open && r.isData():
		r.timing.partial = 0 // it was set if a read returned only a part of the frame header
	case r.timing.partial == 0:
		r.timing.partial = c.now()
	}
	// The client has just got responses. Its next requests may arrive while other goroutines run. Then the read does not
	// block.
	runtime.Gosched()
	return idle, c.setReadDeadline()
}

// isData reports whether a DATA frame has begun. HeaderTimeout does not apply to it, because reads of the body have
// their own deadline.
func (r *reader) isData() bool {
	b := r.bytes()
	return len(b) >= frameHeaderSize && http2.FrameType(b[3]) == http2.FrameData
}

// readLimit returns the time by which the client must send something, or 0 if there is no limit. c.mu is held.
func (c *Conn) readLimit() time.Duration {
	t, s := &c.reader.timing, c.server
	var deadline time.Duration
	add := func(since, limit time.Duration) {
		if limit > 0 && (deadline == 0 || since+limit < deadline) {
			deadline = since + limit
		}
	}
	if !c.reader.gotSettings {
		add(1, s.HeaderTimeout)
	}
	if t.partial > 0 {
		add(t.partial, s.HeaderTimeout)
	}
	switch {
	case t.pinged > 0:
		add(t.pinged, s.PingTimeout)
	case c.handlers == 0:
		add(c.idleSince, s.IdleTimeout)
	default:
		add(t.quiet, s.IdleTimeout)
	}
	return deadline
}

// setReadDeadline sets the deadline for the next read. If an earlier deadline is set, it keeps that, to save work; when
// the earlier deadline has passed, readExpired sets the later one.
func (c *Conn) setReadDeadline() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if c.drain.drained {
		return errEnded
	}
	t := &c.reader.timing
	deadline := c.readLimit()
	if deadline == 0 || t.deadline != 0 && t.deadline <= deadline {
		return nil
	}
	t.deadline = deadline
	_ = c.link.Conn.SetReadDeadline(c.epoch.Add(deadline)) // if the connection is closed, reading fails
	return nil
}

// pingData are the data of pings that check whether the client is alive.
var pingData = [8]byte{'h', 'g', 'a', 'l', 'i', 'v', 'e'}

// readExpired is called when the deadline of a read has passed. It returns an error if the connection must end.
// Otherwise it sets the next deadline.
func (c *Conn) readExpired() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if c.drain.drained {
		return errEnded
	}
	t, now := &c.reader.timing, c.now()
	if t.arrived {
		t.arrived, t.quiet, t.pinged = false, now, 0
	}
	deadline := c.readLimit()
	if deadline > 0 && now >= deadline {
		switch {
		case t.partial > 0 || !c.reader.gotSettings:
			return &timeoutError{"a frame is incomplete"}
		case t.pinged > 0:
			return &timeoutError{"a ping has no response"}
		case c.handlers == 0:
			return errEnded
		}
		t.pinged = now
		c.ping(pingData)
		c.flushSoon()
		deadline = c.readLimit()
	}
	t.deadline = deadline
	if deadline == 0 {
		_ = c.link.Conn.SetReadDeadline(time.Time{})
	} else {
		_ = c.link.Conn.SetReadDeadline(c.epoch.Add(deadline))
	}
	return nil
}
