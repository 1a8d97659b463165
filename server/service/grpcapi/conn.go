package grpcapi

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/internal/conns"
)

// A listener wraps accepted connections in a conn.
type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, addr: connAddr{Addr: nc.RemoteAddr()}, epoch: time.Now()}
	if counted := conns.Of(nc); counted != nil {
		counted.SetHolder(c)
	}
	return c, nil
}

// A conn is a caller's connection. gRPC does not report when a connection has no calls, so conn counts reads and writes
// instead.
type conn struct {
	net.Conn
	addr      connAddr
	epoch     time.Time
	transfers atomic.Int64 // number of reads and writes
	closed    atomic.Bool

	// Used by ConnKind, which is not called concurrently.
	lastTransfers int64         // transfers at the last call
	lastChange    time.Duration // when transfers last changed
}

// A connAddr is a caller's address. gRPC passes it to each call, so that the calls of a connection share its state.
type connAddr struct {
	net.Addr
	authenticated atomic.Bool // the token was checked on this connection
}

// RemoteAddr returns a *connAddr.
func (c *conn) RemoteAddr() net.Addr { return &c.addr }

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.transfers.Add(1)
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.transfers.Add(1)
	return c.Conn.Write(b)
}

// idleAfter is the time without traffic after which a connection is idle.
const idleAfter = 5 * time.Second

var _ conns.Holder = (*conn)(nil)

// ConnKind returns Idle if there was no traffic for idleAfter, Unused if there was none at all, and Busy otherwise.
func (c *conn) ConnKind() conns.Kind {
	now, transfers := time.Since(c.epoch), c.transfers.Load()
	switch {
	case c.closed.Load(): // it was claimed already
		return conns.Busy
	case transfers == 0:
		return conns.Unused
	case transfers != c.lastTransfers:
		c.lastTransfers, c.lastChange = transfers, now
		return conns.Busy
	case now-c.lastChange < idleAfter:
		return conns.Busy
	default:
		return conns.Idle
	}
}

// ClaimConn reports whether the connection is still of that kind. If so, it marks the connection as closed.
func (c *conn) ClaimConn(kind conns.Kind) bool {
	return c.ConnKind() == kind && c.closed.CompareAndSwap(false, true)
}
