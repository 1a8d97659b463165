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

	"github.com/headgate/headgate/gateway/internal/http1"
	"github.com/headgate/headgate/gateway/upstream"
)

// A body is that of a request, with bounds: how long it may be, and how slow. A leg may read it in a goroutine of its own,
// as long as the request lasts: finish ends that.
type body struct {
	g      *Gateway
	front  front
	source io.ReadCloser
	r      *http.Request // whose trailers come with the end of the body
	http2  bool

	left    int64         // how much more there may be; below zero any amount
	got     int64         // bytes
	waited  time.Duration // for them
	armed   time.Duration // when the deadline was set; 0 if there is none
	limit   time.Duration // what it is
	touched atomic.Bool   // somebody has begun to read, so that it cannot be sent twice

	keeps bool   // what is read is kept, so that it can be read again
	kept  []byte // what was
	again []byte // what of it is still to be read again

	mu      sync.Mutex
	stream  bool // the client may be silent
	reading bool
	ended   bool          // it has been read to its end
	closed  bool          // the request is over
	free    chan struct{} // closed when the one who reads is done, made when somebody waits for that
	read    func()        // called once, when nothing more of the body is read; nil for nothing
	err     error         // why reading failed
}

var (
	errBodyTooLarge = errors.New("the body is too large")
	errBodyTooSlow  = errors.New("the body is too slow")
	errRequestOver  = errors.New("the request is over")
)

// maxKept is how long a body may be that can be sent to a second upstream, if the first was not reached. It is that up to
// which package upstream reads a body before it connects.
const maxKept = upstream.DefaultBufferBody

// takeBody puts bounds around the body of a request, if it has one.
func (ex *exchange) takeBody(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return
	}
	b := &body{g: ex.g, front: ex.front, source: r.Body, r: r, http2: ex.http2, left: -1}
	if most := ex.route.config.MaxBody; most > 0 && r.ContentLength < 0 {
		b.left = most // of one that says its length, that has been looked at
	}
	b.keeps = len(ex.route.servers) > 1 && r.ContentLength > 0 && r.ContentLength <= maxKept
	b.stream = ex.http2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
	ex.body, r.Body = b, b
	if !ex.http2 {
		// Otherwise the server would read all of the body before it sends the answer.
		_ = ex.front.EnableFullDuplex() // a server that cannot works like that
	}
}

func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if err := b.begin(); err != nil {
		return 0, err
	}
	if len(b.again) > 0 {
		n := copy(p, b.again)
		b.again = b.again[n:]
		b.end(nil)
		return n, nil
	}
	b.touched.Store(true)
	if b.left >= 0 && int64(len(p)) > b.left {
		p = p[:b.left+1] // one more reports whether there is more
	}
	start := b.g.now()
	n, err := b.source.Read(p)
	now := b.g.now()
	b.waited += now - start
	b.got += int64(n)
	if b.left >= 0 {
		if int64(n) > b.left {
			n, err = int(b.left), errBodyTooLarge
		}
		b.left -= int64(n)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && b.late(now) {
		err = errBodyTooSlow // and not a deadline that a leg has set to end this
	}
	if b.keeps {
		b.kept = append(b.kept, p[:n]...)
	}
	if errors.Is(err, io.EOF) {
		b.g.cleanTrailers(b.r.Trailer)
	}
	b.end(err)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &bodyError{err: err}
	}
	return n, err
}

// A bodyError is one of reading the body, by which a leg that goes by net/http can be told whose fault it is.
type bodyError struct{ err error }

func (e *bodyError) Error() string { return e.err.Error() }
func (e *bodyError) Unwrap() error { return e.err }

// Close does nothing, as the server closes the body itself. A transport closes it before it is sure that it will not be
// needed any more.
func (b *body) Close() error { return nil }

func (b *body) begin() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errRequestOver
	case b.err != nil:
		return &bodyError{err: b.err}
	case b.ended && len(b.again) == 0:
		return io.EOF
	}
	b.reading = true
	if len(b.again) == 0 {
		b.arm(b.g.now())
	}
	return nil
}

func (b *body) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if err != nil || b.http2 {
		b.disarm()
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.ended = true
		b.wasRead()
	default:
		b.err = err
	}
	if b.free != nil {
		close(b.free)
	}
}

// wasRead says that nothing more of the body is read. b.mu is held.
func (b *body) wasRead() {
	if read := b.read; read != nil {
		b.read = nil
		read()
	}
}

// late reports whether the client's time was over.
func (b *body) late(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now >= b.limit
}

// arm bounds how long the client may be silent, and how slow on the whole. b.mu is held.
func (b *body) arm(now time.Duration) {
	config := &b.g.config
	wait := config.BodyTimeout
	if b.stream {
		wait = config.StreamTimeout
	} else if config.MinBodyRate > 0 {
		allowed := config.BodyTimeout + time.Duration(min(b.got, 1<<30))*(time.Second/time.Duration(config.MinBodyRate))
		wait = max(min(wait, allowed-b.waited), time.Millisecond)
	}
	if b.armed != 0 && now-b.armed < wait/4 && wait == config.BodyTimeout {
		return
	}
	b.armed, b.limit = now, now+wait
	_ = b.front.SetReadDeadline(b.g.epoch.Add(now + wait)) // if the connection is gone, reading says so
}

// disarm ends that. In HTTP/1.1 the server watches the connection itself once it has read the body; in HTTP/2 a deadline
// would end the stream while nobody reads. b.mu is held.
func (b *body) disarm() {
	if b.armed != 0 {
		b.armed = 0
		_ = b.front.SetReadDeadline(time.Time{})
	}
}

// begun says that the answer has begun, after which the client may be silent for long. It reports whether the body has been
// read to its end.
func (b *body) begun() (ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stream = true
	if b.reading {
		b.arm(b.g.now())
	}
	return b.ended
}

// rewind makes the body one that can be sent again, if that is possible. Nobody may be reading.
func (b *body) rewind() bool {
	if !b.touched.Load() {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.keeps || b.err != nil {
		return false
	}
	b.again = b.kept
	return true
}

// failed returns what the client has done wrong with the body, nil if nothing. A leg may only see that the request is over,
// as the server ends it when a body cannot be read.
func (b *body) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(b.err, errBodyTooLarge) || errors.Is(b.err, errBodyTooSlow) {
		return b.err
	}
	return nil
}

// drainTime is how long the server may look for the end of a body that nobody wants.
const drainTime = time.Second

// finish ends all reading, and waits for who reads at this moment.
func (b *body) finish() {
	b.mu.Lock()
	b.closed = true
	b.wasRead()
	var free chan struct{}
	if b.reading {
		if b.free == nil {
			b.free = make(chan struct{})
		}
		free = b.free
	}
	ended := b.ended
	b.mu.Unlock()
	if free != nil {
		past := time.Now().Add(-time.Hour)
		_ = b.front.SetReadDeadline(past)
		<-free
		if !b.http2 {
			_ = b.front.SetReadDeadline(past) // the connection cannot be used for another request
		}
		return
	}
	if !ended && !b.http2 {
		_ = b.front.SetReadDeadline(time.Now().Add(drainTime))
	}
}

// cleanTrailers removes what must not come after the body, but a service might take for a header: what is for one
// connection only, says who is asking, or how the body is to be read, and what only proxies may say.
func (g *Gateway) cleanTrailers(trailers http.Header) {
	for name := range trailers {
		if http1.IsHopByHop(name) || http1.ReplacesHeader(name) || name == g.idHeader || g.proxyHeaders.has(name) || g.identity.TellsWho(name) ||
			!g.config.KeepUnderscores && strings.IndexByte(name, '_') >= 0 {
			delete(trailers, name)
		}
	}
}
