package h2

import (
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

// A body is the body of a request. Unlike the rest of the request, it is not reused: after the handler has returned,
// another goroutine may still read it, such as a goroutine of an http.Transport that got a response before it had
// sent the whole body. conn.mu guards all fields except conn, id and announced.
type body struct {
	conn      *Conn
	id        uint32
	announced http.Header // the Trailer of the request, to which end adds the values

	received       receivedBytes
	inflow         inflow
	left           int64 // bytes of the Content-Length that have not arrived yet; -1 without a Content-Length
	ended          bool  // the client has sent the whole body
	closed         bool  // reads fail, because the body was closed
	err            error // why the rest of the body will not arrive
	trailers       http.Header
	continueStream *stream // the stream on which the client waits for 100 Continue; nil if it does not wait
	deadline       time.Time
	wake           sync.Cond
	timer          *time.Timer // wakes a read at its deadline; nil if there was none
}

var _ io.ReadCloser = (*body)(nil)

// newBody returns the body of a request whose header was just read.
func newBody(st *stream) *body {
	b := &body{
		conn: st.conn, id: st.id, announced: st.request.HTTP.Trailer, left: st.request.length,
		inflow: inflow{window: streamWindow, available: streamWindow},
	}
	b.wake.L = &st.conn.mu
	if st.request.expects {
		b.continueStream = st
	}
	return b
}

// Read reads the body.
func (b *body) Read(p []byte) (int, error) {
	c := b.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case b.closed:
			return 0, http.ErrBodyReadAfterClose
		case len(p) == 0:
			return 0, nil
		case b.received.size > 0:
			n := b.received.read(c.server, p)
			c.giveBodyWindow(b, n)
			c.flush()
			if b.received.size == 0 && b.ended {
				return n, b.end()
			}
			return n, nil
		case b.err != nil:
			return 0, b.err
		case b.ended:
			return 0, b.end()
		}
		if err := b.await(); err != nil {
			return 0, err
		}
	}
}

// end copies the received trailers to the request's Trailer, and returns io.EOF.
func (b *body) end() error {
	for name := range b.announced {
		if lines, ok := b.trailers[name]; ok {
			b.announced[name] = lines
		}
	}
	return io.EOF
}

// await waits until bytes may have arrived, or the end of the body, an error or the deadline. The caller holds conn.mu,
// which await releases while it waits.
func (b *body) await() error {
	if st := b.continueStream; st != nil {
		b.continueStream = nil
		st.response.sendContinue()
		b.conn.flush()
		return nil // flush has released conn.mu, so bytes may have arrived: check again
	}
	if !b.deadline.IsZero() {
		left := time.Until(b.deadline)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		b.wakeAfter(left)
	}
	b.wake.Wait()
	return nil
}

// wakeAfter wakes reads after d, so that they check the deadline. conn.mu is held.
func (b *body) wakeAfter(d time.Duration) {
	if b.timer != nil {
		b.timer.Reset(d)
		return
	}
	b.timer = time.AfterFunc(d, func() {
		b.conn.mu.Lock()
		b.wake.Broadcast()
		b.conn.mu.Unlock()
	})
}

// Close makes further reads fail.
func (b *body) Close() error {
	b.conn.mu.Lock()
	defer b.conn.mu.Unlock()
	b.close()
	b.conn.flush()
	return nil
}

// close makes reads fail, and discards the bytes that were not read. conn.mu is held.
func (b *body) close() {
	if b.closed {
		return
	}
	b.closed, b.continueStream = true, nil
	b.conn.giveConnWindow(b.received.drop(b.conn.server))
	if b.timer != nil {
		b.timer.Stop()
	}
	b.wake.Broadcast()
}

// fail makes reads return err after the bytes that have arrived. conn.mu is held.
func (b *body) fail(err error) {
	if !b.ended && b.err == nil {
		b.err = err
	}
	b.continueStream = nil
	b.wake.Broadcast()
}

func (b *body) setDeadline(t time.Time) {
	b.conn.mu.Lock()
	defer b.conn.mu.Unlock()
	b.deadline = t
	b.wake.Broadcast()
}

// count counts n received bytes. It returns false if the body is longer than its Content-Length. conn.mu is
// held.
func (b *body) count(n int) bool {
	if b.left < 0 {
		return true
	}
	b.left -= int64(n)
	if b.left >= 0 {
		return true
	}
	b.left = 0
	return false
}

// takeTrailers stores the trailers that the client has sent. It returns false if they are
// malformed. conn.mu is held.
func (b *body) takeTrailers(c *Conn, fields []hpack.HeaderField) bool {
	b.trailers = make(http.Header, len(fields))
	for i := range fields {
		f := &fields[i]
		name := c.reader.canonical(f.Name) // "" for names that begin with a colon, too
		if name == "" || !isValue(f.Value) || isConnectionField(name) {
			return false
		}
		b.trailers[name] = append(b.trailers[name], f.Value)
	}
	return true
}

// receivedBytes has the bytes of a body that have arrived and were not read yet.
type receivedBytes struct {
	chunks []*chunk
	from   int // where the unread bytes of the first chunk begin
	to     int // where the bytes of the last chunk end
	size   int // number of unread bytes
}

func (r *receivedBytes) add(s *Server, p []byte) {
	for len(p) > 0 {
		if len(r.chunks) == 0 || r.to == len(chunk{}) {
			r.chunks = append(r.chunks, s.chunk())
			r.to = 0
		}
		n := copy(r.chunks[len(r.chunks)-1][r.to:], p)
		p = p[n:]
		r.to += n
		r.size += n
	}
}

func (r *receivedBytes) read(s *Server, p []byte) int {
	total := 0
	for len(p) > 0 && r.size > 0 {
		end := len(chunk{})
		if len(r.chunks) == 1 {
			end = r.to
		}
		n := copy(p, r.chunks[0][r.from:end])
		p = p[n:]
		total += n
		r.from += n
		r.size -= n
		if r.from == end {
			s.chunks.Put(r.chunks[0])
			r.chunks[0] = nil
			r.chunks = r.chunks[1:]
			r.from = 0
		}
	}
	return total
}

// drop discards all bytes, and returns their number.
func (r *receivedBytes) drop(s *Server) int {
	n := r.size
	for _, c := range r.chunks {
		s.chunks.Put(c)
	}
	*r = receivedBytes{}
	return n
}
