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
	// If there are too many connections, package conns asks c whether this one may be closed.
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
	claimed   atomic.Bool  // see ClaimConn

	// Only ConnKind uses the following fields. It is not called concurrently.
	lastTransfers int64         // transfers at the last call
	lastChange    time.Duration // when transfers last changed
}

// A connAddr is a caller's address, with state of the connection. gRPC passes the address to each call, so all calls of
// the connection share this state.
type connAddr struct {
	net.Addr
	authenticated atomic.Bool // the connection has sent the listener's token: see service.Tokens.Check
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

// ConnKind returns Unused if there was never any traffic, Idle if there was none for idleAfter, and Busy otherwise.
func (c *conn) ConnKind() conns.Kind {
	now, transfers := time.Since(c.epoch), c.transfers.Load()
	switch {
	case c.claimed.Load(): // it must not be claimed again
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

// ClaimConn implements conns.Holder. It reports whether the connection is still of the given kind, and not claimed yet.
// If so, package conns closes it to make room for others.
func (c *conn) ClaimConn(kind conns.Kind) bool {
	return c.ConnKind() == kind && c.claimed.CompareAndSwap(false, true)
}
