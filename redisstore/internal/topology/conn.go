package topology

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A dialer holds the settings for connecting to servers.
type dialer struct {
	network string
	timeout time.Duration
	tls     *tls.Config
}

// A dialAttempt is the connector's attempt to connect.
type dialAttempt struct {
	dialed bool
	err    error // why dialing or the TLS handshake failed
}

// dialAttemptKey is the context key of a dialAttempt. Only the connector's context has a dialAttempt.
type dialAttemptKey struct{}

// dial is called by the client library when it needs a connection. It returns an error unless the connector has caused
// the call, because only the connector may connect.
func (s *Server) dial(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	attempt, ok := ctx.Value(dialAttemptKey{}).(*dialAttempt)
	if !ok {
		return nil, errNotConnected
	}
	attempt.dialed = true
	var d net.Dialer
	conn, err := d.DialContext(ctx, s.options.dialer.network, addr)
	socket, _ := conn.(syscall.Conn) // before TLS wraps it; nil after an error
	if err == nil && s.options.dialer.tls != nil {
		conn, err = handshake(ctx, conn, addr, s.options.dialer.tls)
	}
	if err != nil {
		attempt.err = err
		return nil, err
	}
	c := &serverConn{Conn: conn, socket: socket, server: s, writer: batchWriter{conn: conn, busy: s.busy}}
	c.loginDeadline, _ = ctx.Deadline() // the connector's context always has a deadline
	s.link.set(c, s.options.clock.Now())
	s.counts.connects.Add(1)
	return c, nil
}

// handshake returns the connection with TLS.
func handshake(ctx context.Context, conn net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" { // a proxy may need the name to select the server, even if it is not verified
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &handshakeError{err}
	}
	return secure, nil
}

// A link holds the current connection to a server.
type link struct {
	mu     sync.Mutex
	conn   *serverConn // nil if there is none
	dialed time.Time   // when the last connection was made
}

func (l *link) set(c *serverConn, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.dialed = c, now
}

func (l *link) current() *serverConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// dialedAt returns when the last connection was made.
func (l *link) dialedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dialed
}

// clear removes a connection, and reports whether it was the current one.
func (l *link) clear(c *serverConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return false
	}
	l.conn = nil
	return true
}

// A serverConn is a connection that sends commands in batches. It records in its Server when data arrives and when the
// client library closes the connection.
type serverConn struct {
	net.Conn
	socket        syscall.Conn // the socket under Conn, or nil
	server        *Server
	writer        batchWriter
	closeReason   atomic.Pointer[error] // the first error of Read or dropConnection
	loginDeadline time.Time
	lastWrite     atomic.Int64 // when the library last wrote, in ns since Server.created
	reading       atomic.Bool  // the library is in Read
}

// SetDeadline is called by the client library with a deadline before the login, and with the zero time after it. The
// library derives the deadline from the hang timeout. SetDeadline replaces it by the end of the dial timeout.
func (c *serverConn) SetDeadline(at time.Time) error {
	if !at.IsZero() {
		at = c.loginDeadline
	}
	return c.Conn.SetDeadline(at)
}

func (c *serverConn) Write(b []byte) (int, error) {
	c.lastWrite.Store(c.server.age())
	return c.writer.write(b)
}

func (c *serverConn) Read(b []byte) (int, error) {
	c.reading.Store(true)
	n, err := c.Conn.Read(b)
	c.reading.Store(false)
	if err != nil {
		c.closeReason.CompareAndSwap(nil, &err)
	} else {
		c.server.replies.lastAt.Store(c.server.age())
		c.server.replies.reads.Add(1)
		c.writer.replied()
	}
	return n, err
}

func (c *serverConn) Close() error {
	if c.server.link.clear(c) {
		reason := net.ErrClosed
		if p := c.closeReason.Load(); p != nil {
			reason = *p
		}
		c.server.markLost(c.server.status.Load(), reason) // does nothing if the status changes meanwhile
	}
	return c.Conn.Close()
}

// LastWrite returns when a command was last sent to the server, or the zero time if it is not connected.
func (s *Server) LastWrite() time.Time {
	c := s.workingConn()
	if c == nil {
		return time.Time{}
	}
	return s.timeAt(c.lastWrite.Load())
}

// LastRead returns when data last arrived from the server, or the zero time if it is not connected.
func (s *Server) LastRead() time.Time {
	if s.workingConn() == nil {
		return time.Time{}
	}
	return s.timeAt(s.replies.lastAt.Load())
}

// HasUnread reports whether the server has sent data that this process has not read, or has read and not yet handled.
func (s *Server) HasUnread() bool {
	c := s.workingConn()
	return c != nil && (!c.reading.Load() || unread(c.socket)) // while it is not in Read, the library handles data
}

// workingConn returns the connection, or nil if there is none or it does not work.
func (s *Server) workingConn() *serverConn {
	if !s.Connected() {
		return nil
	}
	return s.link.current()
}
