package h2

import (
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/requestcontext"
	"golang.org/x/net/http2"
)

// statusDenied is the status of responses to requests over the limit.
const statusDenied = http.StatusTooManyRequests

// A stream is a request and its response. It is reused for other requests.
type stream struct {
	conn     *Conn
	id       uint32
	request  requestMemory
	response response
	tooLarge bool // the header is larger than MaxHeaderBytes

	// Guarded by conn.mu.
	body      *body // nil if the request has none
	window    int64 // number of bytes of the response's body that the client still accepts
	wake      sync.Cond
	isWaiting bool        // the stream is in conn.sending.waiting
	timer     *time.Timer // wakes a write at its deadline; nil if there was none
	err       error       // why the stream has ended early
	responded bool        // the header of the response was sent
}

var _ requestcontext.Owner = (*stream)(nil)

// WatchClient implements requestcontext.Owner. It does nothing, because the reading goroutine always notices when the
// client disconnects.
func (st *stream) WatchClient() {}

// ContextValue implements requestcontext.Owner. It has the same values as contexts of net/http.
func (st *stream) ContextValue(key any) any {
	switch key {
	case http.LocalAddrContextKey:
		return st.conn.link.Conn.LocalAddr()
	case http.ServerContextKey:
		return st.conn.server.NetHTTP
	default:
		return nil
	}
}

func (s *Server) stream() *stream {
	if st, ok := s.streams.Get().(*stream); ok {
		return st
	}
	st := new(stream)
	st.request.Request = requestcontext.NewRequest("HTTP/2.0", 2, 0, fewFields)
	st.response.stream, st.response.header = st, make(http.Header, fewFields)
	return st
}

// begin prepares the stream for a request.
func (st *stream) begin(c *Conn, b *headerBlock) {
	st.conn, st.id, st.tooLarge = c, b.stream, b.tooLarge()
	st.window, st.wake.L, st.err = c.peer.window, &c.mu, nil
	st.body, st.responded = nil, false
	st.request.prepare(st)
}

// open starts the handler. conn.mu is held.
func (st *stream) open(b *headerBlock) {
	if !b.end {
		st.body = newBody(st)
		st.request.HTTP.Body = st.body
	}
	st.response.begin(st.request.HTTP)
	st.conn.streams[st.id] = st
	st.conn.handlers++
	st.conn.server.workers.serve(st)
}

// serve calls the handler and ends the stream.
func (st *stream) serve() {
	completed := false
	defer func() {
		if !completed {
			st.panicked(recover())
		}
	}()
	w, r := &st.response, st.request.HTTP
	if st.tooLarge {
		w.refuse()
	} else {
		st.conn.server.Handler.ServeHTTP(w, r)
	}
	if form := r.MultipartForm; form != nil {
		_ = form.RemoveAll() // remove its temporary files, as net/http does
	}
	st.finish()
	completed = true
}

// finish completes the response, and ends the stream.
func (st *stream) finish() {
	w, c := &st.response, st.conn
	w.complete()
	st.request.Context.End()
	c.mu.Lock()
	defer c.mu.Unlock()
	st.endBody()
	if c.streams[st.id] == st {
		switch {
		case w.bodyIncomplete():
			c.reset(st.id, http2.ErrCodeInternal)
		case st.body != nil && !st.body.ended:
			c.reset(st.id, http2.ErrCodeNo) // the client need not send the rest
		default:
			delete(c.streams, st.id)
		}
	}
	status := w.status
	st.release()
	c.handlerEnded(status)
	c.flush()
}

// panicked ends the stream after a panic of the handler. The memory of the stream is not reused, because goroutines
// of the handler may still use it.
func (st *stream) panicked(value any) {
	c := st.conn
	if value != nil && value != http.ErrAbortHandler { //nolint:errorlint // a panic's value is not wrapped
		c.server.Logf("h2: panic serving %s: %v\n%s", c.link.Remote, value, debug.Stack())
	}
	st.request.Context.End()
	c.mu.Lock()
	defer c.mu.Unlock()
	st.endBody()
	if c.streams[st.id] == st {
		c.reset(st.id, http2.ErrCodeInternal)
	}
	st.err = errReset
	c.handlerEnded(0)
	c.flush()
}

// endBody makes reads of the body fail. conn.mu is held.
func (st *stream) endBody() {
	if st.body != nil {
		st.body.close()
	}
}

// release makes the memory available for another request, unless it is large. conn.mu is held.
func (st *stream) release() {
	if st.timer != nil {
		st.timer.Stop()
		st.timer = nil // not reused, because it may be about to run
	}
	m := &st.request
	if st.isWaiting || cap(m.values) > manyFields+fewFields {
		return
	}
	st.response.shrink()
	st.body = nil
	st.conn.server.streams.Put(st)
}

// cancel ends the stream early. conn.mu is held.
func (st *stream) cancel(err error) {
	st.err = err
	if st.body != nil {
		st.body.fail(err)
	}
	st.wake.Broadcast()
	// Cancel may be called with the lock held, because it runs the functions of AfterFunc in other goroutines.
	st.request.Context.Cancel()
}

// A part is a part of a response to send.
type part struct {
	block   []byte // header block; nil for none
	interim bool   // block is the header of an interim response
	data    []byte
	end     bool // the part ends the stream
	flush   bool // send the part now, with all queued frames
}

// send queues a part of the response. It waits until all data are queued, but not longer than the write deadline.
func (st *stream) send(p part) error {
	c := st.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.err != nil {
		return st.err
	}
	var deadline time.Time // set when the first wait begins
	if p.block != nil {
		// Without this wait, a client that does not read could fill the queue with responses that have no body.
		for c.sending.full() {
			if deadline.IsZero() {
				deadline = st.response.WriteDeadline()
			}
			if err := st.await(deadline, false); err != nil {
				return err
			}
		}
		st.responded = !p.interim
		c.sendBlock(st.id, p.block, p.end && len(p.data) == 0)
	} else if len(p.data) == 0 && p.end {
		c.sendEnd(st.id)
	}
	for len(p.data) > 0 {
		rest := c.sendData(st, p.data, p.end)
		if len(rest) < len(p.data) {
			p.data = rest
			continue
		}
		if deadline.IsZero() {
			deadline = st.response.WriteDeadline()
		}
		if err := st.await(deadline, true); err != nil {
			return err
		}
	}
	if p.flush {
		c.flush()
	}
	return st.err
}

// await waits until more can be queued. If needsWindow is set, it also waits until the windows allow data. It may
// return early, so callers must check the condition and call it in a loop. The caller holds conn.mu, which await
// releases while it waits.
func (st *stream) await(deadline time.Time, needsWindow bool) error {
	c := st.conn
	c.flush()
	if st.err != nil {
		return st.err
	}
	if !c.sending.full() && (!needsWindow || c.sending.window > 0 && st.window > 0) {
		return nil
	}
	if !deadline.IsZero() {
		left := time.Until(deadline)
		if left <= 0 {
			if c.streams[st.id] == st {
				c.reset(st.id, http2.ErrCodeInternal)
				c.flushSoon()
			}
			return os.ErrDeadlineExceeded
		}
		st.wakeAfter(left)
	}
	if !st.isWaiting && (c.sending.window <= 0 || c.sending.full()) {
		st.isWaiting = true
		c.sending.waiting = append(c.sending.waiting, st)
	}
	st.wake.Wait()
	return st.err
}

// wakeAfter wakes the stream after d, so that it checks its deadline. conn.mu is held.
func (st *stream) wakeAfter(d time.Duration) {
	if st.timer != nil {
		st.timer.Reset(d)
		return
	}
	c := st.conn
	st.timer = time.AfterFunc(d, func() {
		c.mu.Lock()
		st.wake.Broadcast()
		c.mu.Unlock()
	})
}
