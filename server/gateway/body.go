package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/internal/transport"
)

// A body is the body of a request. It limits the size of the body, and the time that the client may take to send it.
// The forwarder may read it in another goroutine until finish is called.
type body struct {
	g      *Gateway
	writer serverWriter
	source io.ReadCloser
	r      *http.Request // has the trailers, which follow the body
	http2  bool

	left        int64       // how many more bytes are allowed; negative for any number
	readStarted atomic.Bool // reading has begun
	pace        bodyPace    // its deadlines are guarded by mu

	mu      sync.Mutex
	stream  bool // the client may pause for StreamTimeout instead of BodyTimeout
	reading bool
	ended   bool          // the body has been read to its end
	closed  bool          // the request has ended
	readEnd chan struct{} // closed when the current read ends; nil unless finish waits for it
	onDone  func()        // called once, when no more of the body will be read; may be nil
	err     error         // why reading failed
}

// A bodyPace measures how fast a body arrives, and has the deadline for the next bytes. Times are by Gateway.clock.
type bodyPace struct {
	received    int64         // bytes received
	waited      time.Duration // total time that reads have waited for bytes
	deadlineSet time.Duration // when the deadline was set; 0 if there is none
	deadline    time.Duration
}

var (
	errBodyTooLarge = errors.New("the body is too large")
	errBodyTooSlow  = errors.New("the body is too slow")
	errRequestEnded = errors.New("the request has ended")
)

// boundBody replaces r.Body by a body that limits size and time. It does nothing if the request has no body.
func (ex *exchange) boundBody(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return
	}
	b := &body{g: ex.g, writer: ex.writer.inner, source: r.Body, r: r, http2: ex.http2, left: -1}
	if limit := ex.route.config.MaxBody; limit > 0 && r.ContentLength < 0 {
		b.left = limit // if the length is known, admit has checked it
	}
	b.stream = ex.http2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
	ex.body, r.Body = b, b
	if !ex.http2 {
		// Without this, net/http would read all of the body before it sends the response. Other servers may return an error.
		_ = ex.writer.inner.EnableFullDuplex()
	}
}

func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := b.beginRead(); err != nil {
		return 0, err
	}
	b.readStarted.Store(true)
	if b.left >= 0 && int64(len(p)) > b.left {
		p = p[:b.left+1] // one byte more shows that the body is too large
	}
	start := b.g.clock.Now()
	n, err := b.source.Read(p)
	now := b.g.clock.Now()
	b.pace.waited += now - start
	b.pace.received += int64(n)
	if b.left >= 0 {
		if int64(n) > b.left {
			n, err = int(b.left), errBodyTooLarge
		}
		b.left -= int64(n)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && b.isLate(now) {
		err = errBodyTooSlow // if the client is not late, finish has set a past deadline to end the read
	}
	if errors.Is(err, io.EOF) {
		b.g.cleanTrailers(b.r.Trailer)
	}
	b.endRead(err)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &transport.BodyError{Err: err}
	}
	return n, err
}

// Close does nothing: the server closes the body. A transport calls Close before it is certain that the body will not
// be sent again.
func (b *body) Close() error { return nil }

func (b *body) beginRead() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errRequestEnded
	case b.err != nil:
		return &transport.BodyError{Err: b.err}
	case b.ended:
		return io.EOF
	}
	b.reading = true
	b.setDeadline(b.g.clock.Now())
	return nil
}

func (b *body) endRead(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if err != nil || b.http2 {
		b.clearDeadline()
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.ended = true
		b.callOnDone()
	default:
		b.err = err
	}
	if b.readEnd != nil {
		close(b.readEnd)
	}
}

// callOnDone calls onDone, once. b.mu is held.
func (b *body) callOnDone() {
	if f := b.onDone; f != nil {
		b.onDone = nil
		f()
	}
}

// isLate reports whether the client's deadline has passed.
func (b *body) isLate(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now >= b.pace.deadline
}

// setDeadline sets the time by which the client must send the next bytes. A client misses it if it pauses for too long,
// or if it sends more slowly than Config.MinBodyRate on average. b.mu is held.
func (b *body) setDeadline(now time.Duration) {
	config, p := &b.g.config, &b.pace
	wait := config.BodyTimeout
	if b.stream {
		wait = config.StreamTimeout
	} else if config.MinBodyRate > 0 {
		allowed := config.BodyTimeout + time.Duration(min(p.received, 1<<30))*(time.Second/time.Duration(config.MinBodyRate))
		wait = max(min(wait, allowed-p.waited), time.Millisecond)
	}
	if p.deadlineSet != 0 && now-p.deadlineSet < wait/4 && wait == config.BodyTimeout {
		return // most of the time is left, and setting a deadline for each read would cost too much
	}
	p.deadlineSet, p.deadline = now, now+wait
	_ = b.writer.SetReadDeadline(b.g.clock.at(now + wait)) // if the connection is closed, reading fails
}

// clearDeadline removes the deadline. In HTTP/1.1, it is called when reading has ended, because the server then sets
// its own deadlines. In HTTP/2, it is called after each read, because a deadline between two reads would end the
// stream. b.mu is held.
func (b *body) clearDeadline() {
	if b.pace.deadlineSet != 0 {
		b.pace.deadlineSet = 0
		_ = b.writer.SetReadDeadline(time.Time{})
	}
}

// responseBegan must be called when the response begins. From then on, the client may pause for StreamTimeout. It
// reports whether the body has been read to its end.
func (b *body) responseBegan() (ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream = true
	if b.reading {
		b.setDeadline(b.g.clock.Now())
	}
	return b.ended
}

// clientFault returns an error if the body is too large or too slow, and nil otherwise. The forwarder may return
// another error, because the server ends a request whose body cannot be read.
func (b *body) clientFault() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(b.err, errBodyTooLarge) || errors.Is(b.err, errBodyTooSlow) {
		return b.err
	}
	return nil
}

// drainTime is the time for which the server may read the rest of a body that no upstream has read, to reuse the
// connection.
const drainTime = time.Second

// finish ends a read in progress, waits for its end, and refuses further reads.
func (b *body) finish() {
	b.mu.Lock()
	b.closed = true
	b.callOnDone()
	var readEnd chan struct{}
	if b.reading {
		readEnd = make(chan struct{})
		b.readEnd = readEnd
	}
	ended := b.ended
	b.mu.Unlock()
	if readEnd != nil {
		past := time.Now().Add(-time.Hour)
		_ = b.writer.SetReadDeadline(past)
		<-readEnd
		if !b.http2 {
			_ = b.writer.SetReadDeadline(past) // the connection cannot be used for another request
		}
		return
	}
	if !ended && !b.http2 {
		_ = b.writer.SetReadDeadline(time.Now().Add(drainTime))
	}
}

// cleanTrailers removes trailers that a service could mistake for headers: hop-by-hop fields, fields that identify the
// client or frame the body, and fields that only proxies may send.
func (g *Gateway) cleanTrailers(trailers http.Header) {
	for name := range trailers {
		if http1.IsHopByHop(name) || http1.ReplacesHeader(name) || name == g.idHeader || g.proxyHeaders.has(name) ||
			g.identity.Identifies(name) || g.removesUnderscore(name) {
			delete(trailers, name)
		}
	}
}
