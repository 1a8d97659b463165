package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"
)

// A conn is a connection to the upstream. Only one request uses it at a time, or the pool while it is idle.
type conn struct {
	net.Conn         // raw, or TLS over raw
	raw              net.Conn
	socket           *socket // the socket of raw; nil if raw is not a socket
	secure           bool    // Conn is TLS
	reused           bool    // it has served a request before
	idleSince        time.Time
	idleTimeout      time.Duration
	provisionalUntil time.Time // the provisional deadline (see setFirstDeadline) while it is set on Conn; else zero
	closeNetConn     func()    // closes raw, from any goroutine; allocated once
}

func newConn(nc, raw net.Conn, idle time.Duration) *conn {
	return &conn{
		Conn: nc, raw: raw, secure: nc != raw, idleTimeout: idle, socket: newSocket(raw),
		closeNetConn: func() { _ = raw.Close() },
	}
}

// limitIdle limits the idle timeout to three quarters of d. The upstream closes an idle connection after d. The margin
// is needed because a request may be lost if it is sent just when the upstream closes the connection.
func (c *conn) limitIdle(d time.Duration) {
	c.idleTimeout = min(c.idleTimeout, max(d-d/4, time.Millisecond))
}

// isReusable reports whether an idle connection can serve another request. It returns false if the upstream has closed
// the connection, or has sent bytes, which would become the beginning of the next response.
func (c *conn) isReusable() bool {
	if c.socket != nil {
		if !c.socket.isQuiet() {
			return false
		}
		if !c.secure {
			return true
		}
	}
	// The TLS layer may have buffered bytes from the socket. A read with a past deadline finds them without blocking.
	var b [1]byte
	c.provisionalUntil = time.Time{}
	_ = c.SetReadDeadline(pastTime)
	n, err := c.Read(b[:])
	return n == 0 && isTimeout(err)
}

// pastTime is a deadline that ends reads and writes at once.
var pastTime = time.Unix(1, 0)

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

// tlsConfig returns a copy of base that is restricted to HTTP/1.1, with defaults for address. It is nil if base is.
func tlsConfig(base *tls.Config, address string) *tls.Config {
	if base == nil {
		return nil
	}
	c := base.Clone()
	c.NextProtos = []string{"http/1.1"}
	if host, _, err := net.SplitHostPort(address); err == nil && c.ServerName == "" {
		c.ServerName = strings.TrimSuffix(host, ".")
	}
	if c.ClientSessionCache == nil {
		c.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return c
}
