package downstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/gateway/downstream/h2"
	"github.com/headgate/headgate/server/gateway/internal/turns"
	"github.com/headgate/headgate/server/internal/conns"
)

// States of a connection.
const (
	stateFresh  uint32 = iota // nothing has arrived yet
	stateActive               // a request is being read or served
	stateIdle                 // waiting for the next request
	stateDenied               // idle, and the last request was denied
	stateClosed               // the server has closed the connection
)

// A conn serves the connection of a client in one goroutine. A second goroutine watches the connection if a handler
// wants to know when the client disconnects.
type conn struct {
	server     *Server
	link       link
	openedAt   time.Duration // see Server.now
	readyAt    time.Duration // when the client could send its first request, after the TLS handshake
	state      atomic.Uint32
	turn       turns.Turn
	deadline   readDeadline
	used       bool // the connection has served a request
	blankBytes int  // maximum number of CRs and LFs before the next request
	in         readBuffer
	current    *exchange // nil while the connection is idle
	watcher    watcher
	http2      atomic.Pointer[h2.Conn] // nil unless the connection is HTTP/2
}

// A link groups the network connections that a conn uses.
type link struct {
	raw     net.Conn    // the accepted connection
	rwc     net.Conn    // raw, or TLS over raw
	counted *conns.Conn // counts raw in the limits on connections; nil if raw is not counted
	socket  *socket     // for writing to raw; nil with TLS, or if raw is not a socket
	remote  string
	tls     *tls.ConnectionState

	hasWriteDeadline bool // rwc has a write deadline
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, link: link{raw: nc, rwc: nc, counted: conns.Of(nc)}, openedAt: s.now()}
	c.in.pool = &s.buffers
	return c
}

// serve serves the connection until it ends or another goroutine takes it over.
func (c *conn) serve() {
	ended := true
	defer func() { c.end(recover(), ended) }()
	if addr := c.link.raw.RemoteAddr(); addr != nil {
		c.link.remote = addr.String()
	}
	switch {
	case c.server.OnlyNetHTTP:
		if c.server.tls != nil {
			c.link.rwc = tls.Server(c.link.raw, c.server.tls)
		}
		ended = !c.handOver()
		return
	case c.server.tls != nil:
		if !c.handshake() {
			ended = !c.handOver()
			return
		}
		if c.link.tls.NegotiatedProtocol == protocolHTTP2 {
			ended = false
			go c.serveHTTP2(nil)
			return
		}
	default:
		c.link.socket = newSocket(c.link.raw)
	}
	c.readyAt = c.server.now()
	ended = c.serveRequests()
}

// end must be called when the goroutine that serves the connection ends. recovered is the value of its panic, or nil.
// ended is false if another goroutine serves the connection from now on.
func (c *conn) end(recovered any, ended bool) {
	if recovered != nil && recovered != http.ErrAbortHandler { //nolint:errorlint // a panic's value is not wrapped
		c.server.logf("downstream: panic serving %s: %v\n%s", c.link.remote, recovered, debug.Stack())
	}
	if !ended {
		return
	}
	c.turn.Leave(c.server.Turns)
	if c.current != nil {
		c.current.Context.End()
	}
	c.endWatch()
	if c.current != nil && c.current.response.hijacked {
		c.server.forget(c)
	} else {
		c.close()
	}
	if c.server.onEnd != nil {
		c.server.onEnd()
	}
}

// serveRequests serves requests until the connection ends. It returns false if another goroutine takes the connection
// over.
func (c *conn) serveRequests() (ended bool) {
	growStack()
	for {
		switch c.next() {
		case requestRead:
			reusable := c.handle()
			c.turn.End(c.server.Turns)
			if !reusable {
				return true
			}
		case connIdle: // a goroutine with a smaller stack waits from now on
			c.turn.Leave(c.server.Turns)
			go c.serveIdle()
			return false
		case forNetHTTP:
			c.turn.Leave(c.server.Turns)
			if c.isHTTP2() {
				go c.serveHTTP2(bytes.Clone(c.in.bytes()))
				return false
			}
			if c.used && bytes.HasPrefix(c.in.bytes(), http2Preface) {
				return true // net/http would accept HTTP/2 here, but the preface must be the first bytes of a connection
			}
			return !c.handOver()
		default:
			return true
		}
	}
}

// handlerStack is how much stack the gateway's handler needs, with everything that it calls. It makes a stack of 8 KiB.
const handlerStack = 3 << 10

// growStack makes room for the handler on the stack of a new goroutine. If the stack grew in steps as it is used, the
// runtime would move the frames of many calls each time, which took 40 % of the instructions for a new connection.
//
//go:noinline
func growStack() {
	var room [handlerStack]byte
	keep(room[:])
}

// keep makes the compiler keep the variable b.
//
//go:noinline
func keep([]byte) {}

// http2Preface is the beginning of an HTTP/2 connection.
var http2Preface = []byte("PRI * HTTP/2.0")

func (c *conn) close() {
	_ = c.link.rwc.Close() // after an error, the connection is closed too
	if c.link.rwc != c.link.raw {
		_ = c.link.raw.Close()
	}
	c.server.forget(c)
}

// handshake does the TLS handshake. It returns false if net/http must serve the connection. This is so if another
// protocol was negotiated, or if the handshake has failed: then net/http reports the error.
func (c *conn) handshake() bool {
	raw := c.link.raw
	secure := tls.Server(raw, c.server.tls)
	c.link.rwc = secure
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if limit := c.server.HeaderTimeout; limit > 0 {
		_ = raw.SetDeadline(time.Now().Add(limit)) // if the connection is closed, the handshake fails
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	err := secure.HandshakeContext(ctx)
	if c.server.HeaderTimeout > 0 {
		_ = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		return false
	}
	state := secure.ConnectionState()
	if p := state.NegotiatedProtocol; p != "" && p != "http/1.1" && p != protocolHTTP2 {
		return false
	}
	c.link.tls = &state
	return true
}

// handle calls the handler for the current request, and sends its response. It reports whether the connection can serve
// another request.
func (c *conn) handle() bool {
	w, r := &c.current.response, c.current.HTTP
	w.begin(r)
	c.watcher.begin()
	c.server.Handler.ServeHTTP(w, r)
	if w.hijacked {
		return false
	}
	w.finish()
	if form := r.MultipartForm; form != nil {
		_ = form.RemoveAll() // removes temporary files, as net/http does
	}
	body := c.current.body
	if body != nil {
		body.end()
	}
	c.current.Context.End() // before endWatch, so that no new watch begins
	c.endWatch()
	c.current.body = nil
	if body != nil && !body.drain() {
		if w.err == nil {
			conns.Linger(c.link.rwc, c.link.raw)
		}
		return false
	}
	if c.deadline.byHandler.Load() {
		c.deadline.byHandler.Store(false)
		c.resetReadDeadline()
	}
	if w.err != nil || w.closes || w.bodyIncomplete() || c.server.ending.Load() {
		return false
	}
	state := stateIdle
	if w.status == http.StatusTooManyRequests {
		state = stateDenied
	}
	c.state.Store(state)
	return true
}

var _ conns.Holder = (*conn)(nil)

// ConnKind implements conns.Holder.
func (c *conn) ConnKind() conns.Kind { return kindOf(c.state.Load()) }

func kindOf(state uint32) conns.Kind {
	switch state {
	case stateFresh:
		return conns.Unused
	case stateIdle:
		return conns.Idle
	case stateDenied:
		return conns.Denied
	default:
		return conns.Busy
	}
}

// ClaimConn implements conns.Holder.
func (c *conn) ClaimConn(kind conns.Kind) bool {
	state := c.state.Load()
	return kind != conns.Busy && kindOf(state) == kind && c.state.CompareAndSwap(state, stateClosed)
}
