package downstream

import (
	"bytes"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/internal/conns"
)

// A handover is the listener on which net/http gets its connections.
type handover struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	addr   net.Addr
}

func newHandover(addr net.Addr) *handover {
	return &handover{conns: make(chan net.Conn), closed: make(chan struct{}), addr: addr}
}

var _ net.Listener = (*handover)(nil)

// give hands a connection over. It reports whether there is still somebody to take it.
func (h *handover) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Accept returns the next connection that is handed over.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close ends it.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr returns the address of the listener that connections come from.
func (h *handover) Addr() net.Addr { return h.addr }

// handOver gives the connection to net/http, with what was read of it and not used. It reports whether that was possible. A request
// that has begun is still ours to wait for until net/http answers it: its Shutdown drops those that it has just read.
func (c *conn) handOver() bool {
	c.disarm()
	c.response.unbound()
	if c.place != nil {
		c.place.SetKind(conns.Busy)
		c.place.SetHolder(nil) // from now on net/http knows what it is doing
	}
	to := c.rwc
	if rest := c.in.bytes(); len(rest) > 0 {
		again := &replayed{Conn: c.rwc, rest: append([]byte(nil), rest...)}
		// net/http looks for a preface of HTTP/2, and waits for as many bytes. So short a request is none, and what is added
		// here comes after the answer that says so.
		for len(again.rest) < len(preface) {
			again.rest = append(again.rest, '\n')
		}
		again.plain = !bytes.HasPrefix(rest, preface)
		again.from.Store(c)
		to = again
		if secure, ok := c.rwc.(*tls.Conn); ok {
			to = &replayedTLS{replayed: again, secure: secure}
		}
		return c.server.handover.give(to)
	}
	if !c.server.handover.give(to) {
		return false
	}
	c.server.forget(c)
	return true
}

// replayed is a connection of which some was read already.
type replayed struct {
	net.Conn
	rest  []byte
	plain bool // it is not HTTP/2's
	framing
	from atomic.Pointer[conn] // until it is answered; nil if it was not handed over
}

func (r *replayed) Read(p []byte) (int, error) {
	n, err := r.read(p)
	if r.plain {
		r.see(p[:n])
	}
	return n, err
}

func (r *replayed) read(p []byte) (int, error) {
	if len(r.rest) > 0 {
		n := copy(p, r.rest)
		if r.rest = r.rest[n:]; len(r.rest) == 0 {
			r.rest = nil
		}
		return n, nil
	}
	return r.Conn.Read(p)
}

func (r *replayed) Write(p []byte) (int, error) {
	r.answered()
	return r.Conn.Write(p)
}

// Close closes the connection.
func (r *replayed) Close() error {
	r.answered()
	return r.Conn.Close()
}

// answered has the connection no longer waited for by us.
func (r *replayed) answered() {
	if r.from.Load() == nil {
		return
	}
	if c := r.from.Swap(nil); c != nil {
		c.server.forget(c)
	}
}

// CloseWrite is what net/http closes with after an error, so that its answer arrives.
func (r *replayed) CloseWrite() error { return conns.CloseWrite(r.Conn) }

// NetConn returns the connection itself, for who needs to know its kind.
func (r *replayed) NetConn() net.Conn { return r.Conn }

// replayedTLS is the same with TLS.
type replayedTLS struct {
	*replayed
	secure *tls.Conn
}

// ConnectionState is by which net/http knows.
func (r *replayedTLS) ConnectionState() tls.ConnectionState { return r.secure.ConnectionState() }
