package downstream

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/internal/requestcontext"
)

// requestMemory is a request and its memory. The memory is used again for other requests.
type requestMemory struct {
	requestcontext.Request
	head   requestHead
	text   string // the bytes of the head; the strings of the request are parts of it
	values []string
	url    url.URL
	body   *body // nil if the request has none
}

// isLarge reports whether the request is so large that its memory is not used again.
func (m *requestMemory) isLarge() bool {
	return len(m.text) > keptHead || cap(m.values) > manyFields+8
}

// bodyLeft returns the number of bytes of the body that have not been read.
func (m *requestMemory) bodyLeft() int64 {
	if m.body == nil {
		return 0
	}
	return m.body.left.Load()
}

// readResult is the result of reading the next request.
type readResult uint8

const (
	connEnded   readResult = iota // there is no further request
	connIdle                      // no further request has arrived for Server.handOverAfter
	requestRead                   // there is a request that this package serves
	forNetHTTP                    // net/http must serve the connection
)

// next reads the head of the next request.
func (c *conn) next() readResult {
	fresh := c.state.Load() == stateFresh
	timeout := c.server.IdleTimeout // 0 means none
	if fresh {
		timeout = c.server.HeaderTimeout
	}
	handOver := !fresh && c.link.socket != nil && (timeout == 0 || timeout > c.server.handOverAfter)
	if handOver {
		timeout = c.server.handOverAfter
	}
	for c.in.skipBlanks(&c.blankBytes); c.in.empty(); c.in.skipBlanks(&c.blankBytes) {
		c.in.release()
		c.releaseExchange()
		waited := c.turn.Await(c.server.Turns)
		now := c.server.now()
		if !waited && c.server.mayYield(now) {
			runtime.Gosched()
		}
		switch err := c.fill(now, timeout); {
		case err == nil:
		case handOver && errors.Is(err, os.ErrDeadlineExceeded):
			return connIdle
		default:
			return connEnded
		}
	}
	if state := c.state.Load(); state == stateClosed || !c.state.CompareAndSwap(state, stateActive) {
		return connEnded // the server has closed the connection
	}
	scanned := 0
	begun := time.Duration(0) // when the first piece of the head arrived; 0 if the head may be complete
	for {
		b := c.in.bytes()
		end := http1.HeadEnd(b, &scanned)
		switch {
		case end > maxHead || end == 0 && len(b) >= maxHead:
			return forNetHTTP
		case end > 0:
			return c.parse(b[:end])
		case isTooShort(b):
			return forNetHTTP // net/http also refuses the request before the rest has arrived
		}
		// The head arrives in pieces. HeaderTimeout limits the time for all pieces together.
		now := c.server.now()
		if begun == 0 {
			begun = now
			if fresh {
				begun = c.readyAt
			}
		}
		left := time.Duration(0)
		if c.server.HeaderTimeout > 0 {
			if left = begun + c.server.HeaderTimeout - now; left <= 0 {
				return connEnded
			}
		}
		if c.fill(now, left) != nil {
			return connEnded
		}
	}
}

// isTooShort reports whether the first line is complete, but too short for a request, such as GET / of HTTP/0.9.
func isTooShort(b []byte) bool {
	const shortest = len("G / HTTP/1.1")
	return bytes.IndexByte(b[:min(len(b), shortest)], '\n') >= 0
}

// parse waits for the connection's turn, and parses the head of its next request.
func (c *conn) parse(b []byte) readResult {
	c.turn.Begin(c.server.Turns)
	c.acquireExchange() // after the wait, so that connections that wait for their turn need no memory for an exchange
	if !c.current.head.parse(b) {
		return forNetHTTP
	}
	return c.accept(b)
}

// accept creates the request of a parsed head.
func (c *conn) accept(b []byte) readResult {
	m := &c.current.requestMemory
	if string(b) != m.text { // no allocation is needed if the client repeats a request, as clients often do
		m.text = string(b)
	}
	if n := len(m.head.fields); cap(m.values) < n {
		m.values = make([]string, n+8)
	}
	m.Prepare(c)
	r := m.HTTP
	if !m.head.fill(r, &m.url, m.text, m.values[:cap(m.values)]) {
		return forNetHTTP
	}
	c.used, c.blankBytes = true, 0
	if r.Method == http.MethodPost {
		c.blankBytes = maxBlanks
	}
	c.in.consume(len(m.text))
	if c.in.empty() {
		c.in.release()
	}
	r.RemoteAddr, r.TLS = c.link.remote, c.link.tls
	if r.ContentLength > 0 {
		m.body = &body{conn: c, arrived: int64(len(c.in.bytes())) >= r.ContentLength}
		if !m.body.arrived {
			c.clearReadDeadline() // the handler decides how long a body may take
		}
		m.body.left.Store(r.ContentLength)
		r.Body = m.body
	}
	return requestRead
}

const (
	// yieldTime is the time in which connections may yield after a connection has waited and got its bytes.
	yieldTime = 250 * time.Microsecond
	// longRead is the duration above which a read without a socket has probably waited.
	longRead = 20 * time.Microsecond
)

// mayYield reports whether a connection may call Gosched before it reads. After the call, the client has often received
// its response and sent its next request, and the read does not wait. But the runtime wakes waiting connections only
// when no goroutine can run, or after 10 ms. If connections always yielded, bytes that have arrived would wait for up
// to 10 ms. So connections yield only for a short time after a connection has waited and got its bytes.
func (s *Server) mayYield(now time.Duration) bool {
	return now-time.Duration(s.waited.Load()) < yieldTime
}

// fill reads more bytes. It waits until the time now+timeout, or without a limit if timeout is 0.
func (c *conn) fill(now, timeout time.Duration) error {
	if c.watcher.readErr != nil {
		return c.watcher.readErr
	}
	end := time.Duration(math.MaxInt64)
	if timeout > 0 {
		end = now + timeout
	}
	for expired := false; ; expired = true {
		// To save work, keep an earlier deadline if there is one, and set the later deadline only when the earlier one
		// expires.
		if timeout == 0 {
			c.clearReadDeadline()
		} else if c.deadline.at == 0 || c.deadline.at > end || expired {
			c.setReadDeadline(end)
		}
		err := c.read()
		if err == nil || c.deadline.at == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || c.server.now() >= end {
			return err
		}
	}
}

// read waits for bytes and reads them into c.in.
func (c *conn) read() error {
	if c.link.socket != nil {
		waited, err := c.link.socket.read(&c.in)
		if waited {
			c.server.waited.Store(int64(c.server.now()))
		}
		return err
	}
	began := c.server.now()
	n, err := c.link.rwc.Read(c.in.room())
	c.in.advance(n)
	if now := c.server.now(); now-began > longRead {
		c.server.waited.Store(int64(now))
	}
	if n > 0 {
		return nil
	}
	return err
}

// A readDeadline is the deadline for reading.
type readDeadline struct {
	at        time.Duration // the deadline, by Server.now; 0 if there is none
	byHandler atomic.Bool   // the handler has set another deadline
}

func (c *conn) setReadDeadline(at time.Duration) {
	c.deadline.at = at
	_ = c.link.rwc.SetReadDeadline(c.server.epoch.Add(at)) // if the connection is closed, reading fails
}

// clearReadDeadline removes the server's deadline, if there is one.
func (c *conn) clearReadDeadline() {
	if c.deadline.at != 0 {
		c.resetReadDeadline()
	}
}

// resetReadDeadline removes any deadline.
func (c *conn) resetReadDeadline() {
	c.deadline.at = 0
	_ = c.link.rwc.SetReadDeadline(time.Time{})
}
