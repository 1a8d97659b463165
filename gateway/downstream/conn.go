package downstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/gateway/internal/http1"
	"github.com/headgate/headgate/internal/conns"
)

// What a connection is doing.
const (
	isFresh  uint32 = iota // nothing has come yet
	isActive               // a request is being read or answered
	isIdle                 // it waits for the next one
	isDenied               // so it does, and the last one was denied
	isClosed               // the server has closed it
)

// A conn is a connection of a client. It is served by one goroutine, and by a second one that watches it if somebody wants to
// know when the client hangs up.
type conn struct {
	server *Server
	raw    net.Conn    // as accepted
	place  *conns.Conn // of raw, if it has one; else nil
	rwc    net.Conn    // raw, or TLS over it
	socket *socket     // of raw, if that is what is written to; else nil
	remote string
	tls    *tls.ConnectionState

	opened time.Duration
	ready  time.Duration // when the first request could come
	state  atomic.Uint32
	alarm  time.Duration // the deadline for reading that is set, by the server's clock; 0 if there is none
	theirs atomic.Bool   // the handler has set one
	in     inbox

	head     head
	text     string // of the head; the request's strings are parts of it
	kept     any    // what a handler keeps between requests
	looked   bool   // the handler of this request has looked at it
	repeats  bool   // so has that of the request before, whose head was the same
	size     int    // of the head, in bytes
	blanks   int    // how many line breaks may come before the next head
	values   []string
	url      url.URL
	context  *requestContext
	blank    http.Request // what each request is made of; it has the context
	request  *http.Request
	response response
	body     *body // of the last request that had one

	mu       sync.Mutex
	serving  bool          // a handler is at work; at other times nobody else may read
	wanted   bool          // somebody wants to know when the client hangs up
	watching chan struct{} // closed when who watches has ended; nil if nobody does
	aborted  bool          // who watches is to end
	lost     error         // what reading failed with, while watched
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, raw: nc, rwc: nc, place: conns.Of(nc), opened: s.now()}
	c.response.conn, c.response.header = c, make(http.Header, fewFields)
	c.body = &body{conn: c}
	c.renew(make(http.Header, fewFields))
	return c
}

// renew makes a request with a context that nobody knows yet.
func (c *conn) renew(h http.Header) {
	c.context = &requestContext{conn: c}
	c.blank = *(&http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: http.NoBody}).WithContext(c.context)
	c.request = new(http.Request)
}

// serve serves the connection until it ends or is somebody else's.
func (c *conn) serve() {
	ended := true
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // what a handler panics with is not wrapped
			c.server.logf("downstream: panic serving %s: %v\n%s", c.remote, p, debug.Stack())
		}
		c.context.end()
		c.unwatch()
		if c.response.hijacked {
			c.server.forget(c)
		} else if ended {
			c.close()
		} else {
			return
		}
		if c.server.ConnEnded != nil {
			c.server.ConnEnded(c.raw)
		}
	}()
	if addr := c.raw.RemoteAddr(); addr != nil {
		c.remote = addr.String()
	}
	switch {
	case c.server.OnlyRest:
		if c.server.tls != nil {
			c.rwc = tls.Server(c.raw, c.server.tls)
		}
		ended = !c.handOver()
		return
	case c.server.tls != nil:
		if !c.handshake() {
			ended = !c.handOver()
			return
		}
	default:
		c.socket = newSocket(c.raw)
	}
	c.ready = c.server.now()
	for {
		switch c.next() {
		case served:
			if !c.answer() {
				return
			}
		case refused:
			if c.size > 0 && bytes.HasPrefix(c.in.bytes(), preface) {
				return // net/http would take the connection for a new one
			}
			ended = !c.handOver()
			return
		default:
			return
		}
	}
}

// preface is how a connection of HTTP/2 begins, which one of HTTP/1 does not become.
var preface = []byte("PRI * HTTP/2.0")

// close closes the connection.
func (c *conn) close() {
	_ = c.rwc.Close() // nobody is there to be told
	if c.rwc != c.raw {
		_ = c.raw.Close()
	}
	c.server.forget(c)
}

// handshake begins TLS. It reports whether the connection is served here: it is not if it has chosen another protocol, or fails,
// which net/http then tells the client and the log.
func (c *conn) handshake() bool {
	secure := tls.Server(c.raw, c.server.tls)
	c.rwc = secure
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if limit := c.server.HeaderTimeout; limit > 0 {
		_ = c.raw.SetDeadline(time.Now().Add(limit)) // if the connection is gone, the handshake says so
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	err := secure.HandshakeContext(ctx)
	if c.server.HeaderTimeout > 0 {
		_ = c.raw.SetDeadline(time.Time{})
	}
	if err != nil {
		return false
	}
	state := secure.ConnectionState()
	if p := state.NegotiatedProtocol; p != "" && p != "http/1.1" {
		return false
	}
	c.tls = &state
	return true
}

// What may come next on a connection.
type coming uint8

const (
	over    coming = iota // nothing, it has ended
	served                // a request that is served here
	refused               // something else
)

// next reads the header of the next request.
func (c *conn) next() coming {
	fresh := c.state.Load() == isFresh
	limit := c.server.IdleTimeout
	if fresh {
		limit = c.server.HeaderTimeout
	}
	for c.in.skip(&c.blanks); c.in.empty(); c.in.skip(&c.blanks) {
		c.in.reset()
		// The client has just been answered. While others are served he may send what is next, and then nobody has to wait for it.
		runtime.Gosched()
		if !c.fill(limit) {
			return over
		}
	}
	if state := c.state.Load(); state == isClosed || !c.state.CompareAndSwap(state, isActive) {
		return over // it was closed just now
	}
	scanned := 0
	begun := time.Duration(0)
	for {
		b := c.in.bytes()
		end := http1.HeadEnd(b, &scanned)
		switch {
		case end > maxHead || end == 0 && len(b) >= maxHead:
			return refused
		case end > 0 && !c.head.parse(b[:end]):
			return refused
		case end > 0:
			return c.take(b[:end])
		case isNoRequest(b):
			return refused // as soon as that is known, as net/http does
		}
		// It comes in pieces, and has one time for all of them.
		now := c.server.now()
		if begun == 0 {
			begun = now
			if fresh {
				begun = c.ready
			}
		}
		left := time.Duration(0)
		if c.server.HeaderTimeout > 0 {
			if left = begun + c.server.HeaderTimeout - now; left <= 0 {
				return over
			}
		}
		if !c.fill(left) {
			return over
		}
	}
}

// isNoRequest reports whether the first line is there, and too short to be that of a request, such as the GET / of HTTP/0.9.
func isNoRequest(b []byte) bool {
	const shortest = len("G / HTTP/1.1")
	return bytes.IndexByte(b[:min(len(b), shortest)], '\n') >= 0
}

// take makes a request of the head that was read.
func (c *conn) take(b []byte) coming {
	same := string(b) == c.text
	if !same {
		c.text = string(b)
	}
	text := c.text
	c.repeats, c.looked = same && c.looked, false
	if n := len(c.head.fields); cap(c.values) < n {
		c.values = make([]string, n+8)
	}
	if !c.context.again() {
		c.renew(c.blank.Header)
	}
	clear(c.blank.Header)
	// Nothing that handlers have put into the last one is left: they parse forms only once.
	r := c.request
	*r = c.blank
	if !c.head.fill(r, &c.url, text, c.values[:cap(c.values)]) {
		return refused
	}
	c.size, c.blanks = len(text), 0
	if r.Method == http.MethodPost {
		c.blanks = maxBlanks
	}
	c.in.use(len(text))
	r.RemoteAddr, r.TLS = c.remote, c.tls
	if r.ContentLength > 0 {
		c.disarm() // how long it may take is up to the handler
		c.body = &body{conn: c}
		c.body.left.Store(r.ContentLength)
		r.Body = c.body
	}
	return served
}

// fill reads more, within a limit if it is above 0. It reports whether there is any.
func (c *conn) fill(limit time.Duration) bool {
	if c.lost != nil {
		return false
	}
	b := c.in.room()
	begun, end := time.Duration(0), time.Duration(math.MaxInt64)
	if limit > 0 || c.kept != nil {
		begun = c.server.now()
	}
	if limit > 0 {
		end = begun + limit
	}
	for passed := false; ; passed = true {
		by := end
		if c.kept != nil {
			by = min(end, begun+c.server.keepFor)
		}
		// A deadline that is too early is as good as none: when it is over there is time to set another.
		if by == math.MaxInt64 {
			c.disarm()
		} else if c.alarm == 0 || c.alarm > by || passed {
			c.setAlarm(by)
		}
		n, err := c.rwc.Read(b)
		c.in.w += n
		if n > 0 {
			return true
		}
		if c.alarm == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
		now := c.server.now()
		if now >= end {
			return false
		}
		if now >= begun+c.server.keepFor {
			c.forget()
		}
	}
}

// forget lets go of what is kept for the next request: rules that are no longer in force may hang on it.
func (c *conn) forget() { c.text, c.kept, c.looked = "", nil, false }

// setAlarm sets the deadline for reading.
func (c *conn) setAlarm(at time.Duration) {
	c.alarm = at
	_ = c.rwc.SetReadDeadline(c.server.epoch.Add(at)) // if the connection is gone, reading says so
}

// disarm ends it.
func (c *conn) disarm() {
	if c.alarm != 0 {
		c.alarm = 0
		_ = c.rwc.SetReadDeadline(time.Time{})
	}
}

// answer has the handler answer the request. It reports whether there may be another.
func (c *conn) answer() bool {
	w := &c.response
	w.begin(c.request)
	c.mu.Lock()
	c.serving = true
	c.mu.Unlock()
	c.server.Handler.ServeHTTP(w, c.request)
	if w.hijacked {
		return false
	}
	w.finish()
	if form := c.request.MultipartForm; form != nil {
		_ = form.RemoveAll() // its files, as net/http does; nobody is there to be told
	}
	c.body.end()
	c.context.end() // before unwatch, so that nobody has the connection watched any more
	c.unwatch()
	if c.isLarge() {
		c.values, c.head, c.url = nil, head{}, url.URL{}
		c.forget()
		c.renew(make(http.Header, fewFields))
	}
	if !c.body.drain() {
		if w.err == nil {
			c.linger()
		}
		return false
	}
	if c.theirs.Load() {
		c.theirs.Store(false)
		c.alarm = 0
		_ = c.rwc.SetReadDeadline(time.Time{})
	}
	if w.err != nil || w.closes || w.missing() || c.server.ending.Load() {
		return false
	}
	state := isIdle
	if w.status == http.StatusTooManyRequests {
		state = isDenied
	}
	c.state.Store(state)
	return true
}

var _ conns.Holder = (*conn)(nil)

// ConnKind returns what the connection is doing.
func (c *conn) ConnKind() conns.Kind { return kindOf(c.state.Load()) }

func kindOf(state uint32) conns.Kind {
	switch state {
	case isFresh:
		return conns.Unused
	case isIdle:
		return conns.Idle
	case isDenied:
		return conns.Denied
	default:
		return conns.Busy
	}
}

// ClaimConn has the connection serve nothing any more, if it is still of that kind.
func (c *conn) ClaimConn(kind conns.Kind) bool {
	state := c.state.Load()
	return kind != conns.Busy && kindOf(state) == kind && c.state.CompareAndSwap(state, isClosed)
}

// isLarge reports whether the last request is so large that its memory is not kept for the next.
func (c *conn) isLarge() bool { return c.size > headBuffer || len(c.head.fields) > manyFields }

// lingerTime is how long a client may still send when he has been answered, before he is cut off. If that happened while his
// bytes are under way, he would not get to read the answer.
const lingerTime = 500 * time.Millisecond

// linger says that nothing more will come, and gives the client time to read what did.
func (c *conn) linger() {
	if conns.CloseWrite(c.rwc) != nil {
		return
	}
	_ = c.raw.SetReadDeadline(time.Now().Add(lingerTime))
	var waste [4 << 10]byte
	for range 1024 {
		if _, err := c.raw.Read(waste[:]); err != nil {
			return
		}
	}
}
