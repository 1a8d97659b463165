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
	err    error // of dialing
}

// dialAttemptKey is the context key of a dialAttempt. The context of a caller has none.
type dialAttemptKey struct{}

// dial is called by the client library when it needs a connection. Only the connector gets one.
func (s *Server) dial(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	attempt, ok := ctx.Value(dialAttemptKey{}).(*dialAttempt)
	if !ok {
		return nil, errNotConnected
	}
	attempt.dialed = true
	var d net.Dialer
	conn, err := d.DialContext(ctx, s.options.dialer.network, addr)
	socket, _ := conn.(syscall.Conn)
	if err == nil && s.options.dialer.tls != nil {
		conn, err = handshake(ctx, conn, addr, s.options.dialer.tls)
	}
	if err != nil {
		attempt.err = err
		return nil, err
	}
	c := &serverConn{Conn: conn, socket: socket, server: s, writer: batchWriter{conn: conn, busy: s.busy}}
	c.loginDeadline, _ = ctx.Deadline() // the connector's context always has one
	s.link.set(c, s.options.clock.Now())
	s.counts.connects.Add(1)
	return c, nil
}

func handshake(ctx context.Context, conn net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" { // needed even if it is not verified: it tells apart servers behind one address
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

// A link is the current connection of a server.
type link struct {
	mu    sync.Mutex
	conn  *serverConn // nil if there is none
	since time.Time
}

func (l *link) set(c *serverConn, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn, l.since = c, now
}

func (l *link) current() *serverConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// connectedAt returns when the last connection was made.
func (l *link) connectedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since
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

// A serverConn is a connection that sends commands in batches and tells its server when data arrives and when the
// client library closes it.
type serverConn struct {
	net.Conn
	socket        syscall.Conn // of Conn; nil if it has none
	server        *Server
	writer        batchWriter
	closeReason   atomic.Pointer[error] // the first error, nil until there is one
	loginDeadline time.Time
	lastWrite     atomic.Int64 // when the library last wrote, as Server.age
	reading       atomic.Bool  // the library is in Read
}

// SetDeadline is called by the client library for the login, and with the zero time after it. The login has until the
// dial timeout instead of the shorter hang timeout.
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
		c.server.lost(c.server.status.Load(), reason)
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

// HasUnread reports whether data of the server has arrived that this process has not read or handled yet.
func (s *Server) HasUnread() bool {
	c := s.workingConn()
	return c != nil && (!c.reading.Load() || unread(c.socket))
}

// workingConn returns the connection, or nil if there is none or it does not work.
func (s *Server) workingConn() *serverConn {
	if !s.Connected() {
		return nil
	}
	return s.link.current()
}
