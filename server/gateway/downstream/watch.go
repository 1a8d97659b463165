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
	stopping bool          // the watching goroutine is to end
	readErr  error         // of the watching goroutine
}

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

// WatchClient implements requestcontext.Owner. It watches the connection from now on, or once the body of the request
// has been read.
func (c *conn) WatchClient() {
	c.watcher.mu.Lock()
	defer c.watcher.mu.Unlock()
	c.watcher.wanted = c.watcher.serving // a caller that has kept the context of an earlier request gets no watch
	c.watch()
}

// watch starts the watching goroutine if it is wanted and possible: the next bytes must not be part of the request.
// c.watcher.mu is held.
func (c *conn) watch() {
	w := &c.watcher
	if !w.wanted || w.done != nil || w.stopping || w.readErr != nil || c.current.bodyLeft() > 0 || c.in.full() {
		return
	}
	c.clearReadDeadline()
	done := make(chan struct{})
	w.done = done
	go c.readAhead(done, c.current.Context, c.in.room())
}

// readAhead reads what arrives before the response has ended: usually nothing, or the end of the connection.
func (c *conn) readAhead(done chan struct{}, ctx *requestcontext.Context, room []byte) {
	defer close(done)
	n, err := c.link.rwc.Read(room)
	w := &c.watcher
	w.mu.Lock()
	c.in.w += n
	gone := err != nil && n == 0 && !(w.stopping && errors.Is(err, os.ErrDeadlineExceeded))
	if gone {
		w.readErr = err
	}
	w.mu.Unlock()
	if gone {
		ctx.Cancel()
	}
}

// unwatch ends the watch.
func (c *conn) unwatch() {
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

// longAgo, as a deadline, ends reads at once.
var longAgo = time.Unix(1, 0)
