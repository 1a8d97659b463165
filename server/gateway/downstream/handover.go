package downstream

import (
	"bytes"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/server/internal/conns"
)

// A handover is the listener from which net/http accepts connections.
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

// give passes a connection to net/http. It returns false if the handover is closed.
func (h *handover) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Accept returns the next connection.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close makes Accept and give fail.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr returns the address of the server's listener.
func (h *handover) Addr() net.Addr { return h.addr }

// handOver passes the connection to net/http, with the bytes that were read but not used. It returns false if the
// handover is closed. If a request has begun, Server.Shutdown waits until net/http responds, because
// http.Server.Shutdown would close the connection of a request that net/http has only just read.
func (c *conn) handOver() bool {
	c.clearReadDeadline()
	c.link.clearWriteDeadline()
	if counted := c.link.counted; counted != nil {
		counted.SetKind(conns.Busy)
		counted.SetHolder(nil) // from now on net/http reports its state
	}
	rest := c.in.bytes()
	if len(rest) == 0 {
		given := c.server.handover.give(c.link.rwc)
		if given {
			c.server.forget(c)
		}
		return given
	}
	replayed := &replayedConn{Conn: c.link.rwc, rest: bytes.Clone(rest), plain: !bytes.HasPrefix(rest, http2Preface)}
	// net/http waits for as many bytes as the HTTP/2 preface has. A shorter request is always invalid. Add line breaks,
	// so that net/http refuses it immediately.
	for len(replayed.rest) < len(http2Preface) {
		replayed.rest = append(replayed.rest, '\n')
	}
	replayed.pending.Store(c)
	if secure, ok := c.link.rwc.(*tls.Conn); ok {
		return c.server.handover.give(&replayedTLSConn{replayedConn: replayed, secure: secure})
	}
	return c.server.handover.give(replayed)
}

// A replayedConn is a connection from which some bytes were read. Its Read returns these bytes first.
type replayedConn struct {
	net.Conn
	rest    []byte // the bytes to return first
	plain   bool   // the connection is not HTTP/2
	framing framingScanner
	pending atomic.Pointer[conn] // the conn that Shutdown waits for; nil after net/http has responded
}

func (r *replayedConn) Read(p []byte) (int, error) {
	n, err := r.read(p)
	if r.plain {
		r.framing.scan(p[:n])
	}
	return n, err
}

func (r *replayedConn) read(p []byte) (int, error) {
	if len(r.rest) > 0 {
		n := copy(p, r.rest)
		r.rest = r.rest[n:]
		if len(r.rest) == 0 {
			r.rest = nil // frees its memory
		}
		return n, nil
	}
	return r.Conn.Read(p)
}

func (r *replayedConn) Write(p []byte) (int, error) {
	r.responded()
	return r.Conn.Write(p)
}

// Close closes the connection.
func (r *replayedConn) Close() error {
	r.responded()
	return r.Conn.Close()
}

// responded ends the wait of Server.Shutdown for the connection.
func (r *replayedConn) responded() {
	if r.pending.Load() == nil {
		return
	}
	if c := r.pending.Swap(nil); c != nil {
		c.server.forget(c)
	}
}

// CloseWrite is called by net/http after it has refused a request, so that the client receives the response.
func (r *replayedConn) CloseWrite() error { return conns.CloseWrite(r.Conn) }

// NetConn returns the wrapped connection, for conns.Of.
func (r *replayedConn) NetConn() net.Conn { return r.Conn }

// A replayedTLSConn is a replayedConn with TLS.
type replayedTLSConn struct {
	*replayedConn
	secure *tls.Conn
}

// ConnectionState returns the state of TLS. net/http recognizes TLS connections by this method.
func (r *replayedTLSConn) ConnectionState() tls.ConnectionState { return r.secure.ConnectionState() }
