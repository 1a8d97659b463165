package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"
)

// A conn is a connection to the upstream. It has one user at a time: a request, or the pool.
type conn struct {
	net.Conn               // what is read and written: raw, or TLS over it
	raw      net.Conn      // what is closed
	socket   *socket       // of raw; nil if there is none
	secure   bool          // it has TLS
	reused   bool          // it has served a request before
	since    time.Time     // when it became idle
	idle     time.Duration // how long it may stay so
	alarm    time.Time     // the deadline that is set, if it is one of patience
	hangUp   func()        // ends what is being read and written, from any goroutine; made once, to be passed on
}

func newConn(nc, raw net.Conn, idle time.Duration) *conn {
	return &conn{
		Conn: nc, raw: raw, secure: nc != raw, idle: idle, socket: newSocket(raw),
		hangUp: func() { _ = raw.Close() },
	}
}

// keepFor notes how long the upstream says that it keeps the connection. A request that is sent just when it is closed may
// be lost, so it is given up some time before.
func (c *conn) keepFor(d time.Duration) { c.idle = min(c.idle, max(d-d/4, time.Millisecond)) }

// quiet reports whether nothing has come in while the connection was idle: no end, and no bytes that would be taken for the
// beginning of the next response.
func (c *conn) quiet() bool {
	if c.socket != nil {
		if !c.socket.silent() {
			return false
		}
		if !c.secure {
			return true
		}
	}
	// TLS may hold bytes that were in the socket. A read that may not wait finds them.
	var b [1]byte
	c.alarm = time.Time{}
	_ = c.SetReadDeadline(longAgo)
	n, err := c.Read(b[:])
	return n == 0 && isTimeout(err)
}

// longAgo, as a deadline, ends reads and writes at once.
var longAgo = time.Unix(1, 0)

// dial connects to the upstream.
func (p *Pool) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.DialTimeout)
	defer cancel()
	raw, err := p.config.Dial(ctx, p.network, p.address)
	if err != nil {
		return nil, err
	}
	if p.tls == nil {
		return newConn(raw, raw, p.config.IdleTimeout), nil
	}
	secured := tls.Client(raw, p.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	if protocol := secured.ConnectionState().NegotiatedProtocol; protocol != "" && protocol != "http/1.1" {
		_ = raw.Close()
		return nil, errProtocol
	}
	return newConn(secured, raw, p.config.IdleTimeout), nil
}

// tlsConfig is what the user gave, for this address and HTTP/1.1 only.
func tlsConfig(given *tls.Config, address string) *tls.Config {
	if given == nil {
		return nil
	}
	c := given.Clone()
	c.NextProtos = []string{"http/1.1"}
	if host, _, err := net.SplitHostPort(address); err == nil && c.ServerName == "" {
		c.ServerName = strings.TrimSuffix(host, ".")
	}
	if c.ClientSessionCache == nil {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return c
}
