package downstream

import (
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/requestcontext"
)

var _ requestcontext.Owner = (*conn)(nil)

// A watcher reads from the connection while a handler runs, to notice that the client has disconnected.
type watcher struct {
	mu       sync.Mutex
	serving  bool          // a handler runs; at other times only conn.serve may read
	wanted   bool          // the handler wants to know when the client disconnects
	done     chan struct{} // closed when the watching goroutine has ended; nil if there is none
	stopping bool          // endWatch waits for the watching goroutine to end
	readErr  error         // the error with which the client disconnected
}

// begin allows the handler to start the watch, until endWatch is called.
func (w *watcher) begin() {
	w.mu.Lock()
	w.serving = true
	w.mu.Unlock()
}

// ContextValue implements requestcontext.Owner, with the values that net/http's contexts have.
func (c *conn) ContextValue(key any) any {
	switch key {
	case http.LocalAddrContextKey:
		return c.link.rwc.LocalAddr()
	case http.ServerContextKey:
		return c.server.NetHTTP
	default:
		return nil
	}
}

// WatchClient implements requestcontext.Owner. It starts the watch. If the body of the request was not read yet, the
// watch starts when it has been read.
func (c *conn) WatchClient() {
	c.watcher.mu.Lock()
	defer c.watcher.mu.Unlock()
	if !c.watcher.serving {
		return // the caller has kept the context of an earlier request
	}
	c.watcher.wanted = true
	c.watch()
}

// watch starts the watching goroutine if a handler wants it and the connection can be watched. c.watcher.mu is held.
func (c *conn) watch() {
	w := &c.watcher
	switch {
	case !w.wanted:
		return
	case w.done != nil || w.stopping || w.readErr != nil: // the goroutine already runs, or the client has disconnected
		return
	case c.current.bodyLeft() > 0: // the next bytes are part of the body, which the handler reads
		return
	case c.in.full(): // no room for the next bytes
		return
	}
	c.clearReadDeadline()
	done := make(chan struct{})
	w.done = done
	go c.readAhead(done, c.current.Context, c.in.room())
}

// readAhead reads bytes that arrive before the response has ended. Usually no bytes arrive, so Read returns only when
// the client disconnects.
func (c *conn) readAhead(done chan struct{}, ctx *requestcontext.Context, room []byte) {
	defer close(done)
	n, err := c.link.rwc.Read(room)
	w := &c.watcher
	w.mu.Lock()
	c.in.advance(n)
	stopped := w.stopping && errors.Is(err, os.ErrDeadlineExceeded)
	disconnected := err != nil && n == 0 && !stopped // with n > 0, the next read returns the error again
	if disconnected {
		w.readErr = err
	}
	w.mu.Unlock()
	if disconnected {
		ctx.Cancel()
	}
}

// endWatch undoes begin. It stops the watching goroutine, if there is one, and waits until it has ended.
func (c *conn) endWatch() {
	w := &c.watcher
	w.mu.Lock()
	w.wanted, w.serving = false, false
	done := w.done
	if done == nil {
		w.mu.Unlock()
		return
	}
	w.stopping = true
	_ = c.link.rwc.SetReadDeadline(longAgo)
	w.mu.Unlock()
	<-done
	w.mu.Lock()
	w.stopping, w.done = false, nil
	w.mu.Unlock()
	c.resetReadDeadline()
}

// longAgo is a deadline that ends reads immediately.
var longAgo = time.Unix(1, 0)
