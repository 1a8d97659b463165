package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// A dialer connects to servers.
type dialer struct {
	network string
	timeout time.Duration
	tls     *tls.Config
}

// An attempt is one of the keeper's to connect.
type attempt struct {
	made bool
	err  error // of dialing
}

// attemptKey is for an attempt in a context. A context without one is a caller's.
type attemptKey struct{}

// dial is called by the client library when it wants a connection.
func (n *node) dial(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	attempt, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok {
		return nil, errNotYet
	}
	attempt.made = true
	var d net.Dialer
	conn, err := d.DialContext(ctx, n.dialer.network, addr)
	socket, _ := conn.(syscall.Conn)
	if err == nil && n.dialer.tls != nil {
		conn, err = handshake(ctx, conn, addr, n.dialer.tls)
	}
	if err != nil {
		attempt.err = err
		return nil, err
	}
	w := &watchedConn{Conn: conn, socket: socket, node: n, gatherer: gatherer{conn: conn, many: n.busy}}
	w.greeted, _ = ctx.Deadline() // the keeper's always has one
	n.mu.Lock()
	n.conn, n.began = w, time.Now()
	n.mu.Unlock()
	n.counts.connects.Add(1)
	return w, nil
}

func handshake(ctx context.Context, conn net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" { // also if it is not checked: servers behind one address are told apart by it
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

// A watchedConn tells its node when the client library gives it up, and gathers what is sent.
type watchedConn struct {
	net.Conn
	socket   syscall.Conn // what Conn reads from; nil if it is none
	node     *node
	why      atomic.Pointer[error] // it was given up
	greeted  time.Time             // until when login may take
	gatherer gatherer
	wroteAt  atomic.Int64 // when the library last wrote something, as node.age tells
	reads    atomic.Bool  // the library waits for something to read
}

// SetDeadline is called by the client library for the login, which has the time of dialing rather than that of a server that hangs,
// and to take that back.
func (w *watchedConn) SetDeadline(at time.Time) error {
	if !at.IsZero() {
		at = w.greeted
	}
	return w.Conn.SetDeadline(at)
}

func (w *watchedConn) Write(b []byte) (int, error) {
	w.wroteAt.Store(w.node.age())
	return w.gatherer.write(b)
}

func (w *watchedConn) Read(b []byte) (int, error) {
	w.reads.Store(true)
	n, err := w.Conn.Read(b)
	w.reads.Store(false)
	if err != nil {
		w.why.CompareAndSwap(nil, &err)
	} else {
		w.node.heardAt.Store(w.node.age())
		w.node.heard.Add(1)
		w.gatherer.answered()
	}
	return n, err
}

func (w *watchedConn) Close() error {
	n := w.node
	n.mu.Lock()
	mine := n.conn == w
	if mine {
		n.conn = nil
	}
	n.mu.Unlock()
	if mine {
		why := net.ErrClosed
		if p := w.why.Load(); p != nil {
			why = *p
		}
		n.lost(n.status.Load(), why)
	}
	return w.Conn.Close()
}
