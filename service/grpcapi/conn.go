package grpcapi

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/conns"
)

// A listener accepts connections that know whether they are idle.
type listener struct{ net.Listener }

func (l *listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, addr: connAddr{Addr: nc.RemoteAddr()}, epoch: time.Now()}
	if place := conns.Of(nc); place != nil {
		place.SetHolder(c)
	}
	return c, nil
}

// A conn is the connection of a caller. gRPC does not say when one has no calls, so that it goes by what passes.
type conn struct {
	net.Conn
	addr   connAddr
	epoch  time.Time
	passed atomic.Int64 // how often something was read or written
	closed atomic.Bool

	// Of who looks whether it is idle, one at a time.
	seen   int64         // passed, at the last look
	seenAt time.Duration // when that had changed
}

// A connAddr is the address of a caller. gRPC hands it on with each call, so that the calls of one connection can share
// what is known about it.
type connAddr struct {
	net.Addr
	proven atomic.Bool // the token was shown on this connection
}

// RemoteAddr returns a *connAddr.
func (c *conn) RemoteAddr() net.Addr { return &c.addr }

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.passed.Add(1)
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.passed.Add(1)
	return c.Conn.Write(b)
}

// silentFor is how long nothing must have passed on a connection for it to be idle.
const silentFor = 5 * time.Second

var _ conns.Holder = (*conn)(nil)

// ConnKind returns Idle for a connection on which nothing has passed since it was looked at some seconds ago.
func (c *conn) ConnKind() conns.Kind {
	now, passed := time.Since(c.epoch), c.passed.Load()
	switch {
	case c.closed.Load():
		return conns.Busy
	case passed == 0:
		return conns.Unused
	case passed != c.seen:
		c.seen, c.seenAt = passed, now
		return conns.Busy
	case now-c.seenAt < silentFor:
		return conns.Busy
	default:
		return conns.Idle
	}
}

// ClaimConn reports whether the connection is still of that kind.
func (c *conn) ClaimConn(kind conns.Kind) bool {
	return c.ConnKind() == kind && c.closed.CompareAndSwap(false, true)
}
