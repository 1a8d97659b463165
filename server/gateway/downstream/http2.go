package downstream

import (
	"bytes"
	"cmp"
	"net/http"
	"time"

	"github.com/headgate/headgate/server/gateway/downstream/h2"
)

// protocolHTTP2 is the name of HTTP/2 in TLS handshakes (ALPN).
const protocolHTTP2 = "h2"

// Defaults of fields of http.HTTP2Config, as in net/http.
const (
	defaultStreams     = 250
	defaultPingTimeout = 15 * time.Second
)

// newHTTP2 returns the server of HTTP/2 connections, with the settings of NetHTTP.
func (s *Server) newHTTP2() *h2.Server {
	var config http.HTTP2Config
	if s.NetHTTP.HTTP2 != nil {
		config = *s.NetHTTP.HTTP2
	}
	return &h2.Server{
		Handler: s.Handler, NetHTTP: s.NetHTTP, Date: s.date, Logf: s.logf,
		MaxStreams:     cmp.Or(config.MaxConcurrentStreams, defaultStreams),
		MaxHeaderBytes: cmp.Or(s.NetHTTP.MaxHeaderBytes, http.DefaultMaxHeaderBytes),
		HeaderTimeout:  s.HeaderTimeout, IdleTimeout: s.IdleTimeout, WriteTimeout: s.WriteTimeout,
		PingTimeout: cmp.Or(config.PingTimeout, defaultPingTimeout),
	}
}

// closeHTTP2 ends the idle goroutines of the HTTP/2 server.
func (s *Server) closeHTTP2() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http2 != nil {
		s.http2.Close()
	}
}

var _ h2.States = (*conn)(nil)

// http2Begin is the part of the preface that looks like an HTTP/1.1 request.
var http2Begin = []byte("PRI * HTTP/2.0\r\n\r\n")

// isHTTP2 reports whether a connection without TLS begins with HTTP/2 and NetHTTP allows unencrypted HTTP/2.
func (c *conn) isHTTP2() bool {
	p := c.server.NetHTTP.Protocols
	return c.server.tls == nil && !c.used && p != nil && p.UnencryptedHTTP2() && bytes.HasPrefix(c.in.bytes(), http2Begin)
}

// serveHTTP2 serves an HTTP/2 connection. rest has the bytes that were already read. It must run in a new goroutine,
// because the stack of a goroutine that has done a TLS handshake stays large.
func (c *conn) serveHTTP2(rest []byte) {
	defer func() { c.end(recover(), true) }()
	c.clearReadDeadline()
	c.in.consume(len(rest))
	c.in.release()
	c.releaseExchange()
	c.state.CompareAndSwap(stateActive, stateFresh) // no request has begun yet
	served := c.server.http2.NewConn(h2.Link{
		Conn: c.link.rwc, Rest: rest, Remote: c.link.remote, TLS: c.link.tls, States: c,
	})
	c.http2.Store(served)
	served.Serve()
}

// Busy implements h2.States.
func (c *conn) Busy() bool {
	state := c.state.Load()
	return state != stateClosed && c.state.CompareAndSwap(state, stateActive)
}

// Idle implements h2.States.
func (c *conn) Idle(denied bool) {
	state := stateIdle
	if denied {
		state = stateDenied
	}
	c.state.CompareAndSwap(stateActive, state)
}
