package downstream

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A requestContext is the context of a request. It ends when the request has ended or its client has disconnected. The
// connection is watched for that only when Done or AfterFunc is called.
type requestContext struct {
	conn *conn

	ended  atomic.Bool // err is set; saves the lock in Err
	mu     sync.Mutex
	used   bool // a goroutine may wait for its end
	done   chan struct{}
	err    error
	afters map[*func()]struct{}
}

var _ context.Context = (*requestContext)(nil)

// closedChan is the channel of contexts that have ended before Done was called.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline implements context.Context. There is none.
func (x *requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (x *requestContext) Done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.done == nil {
		if x.err != nil {
			x.done = closedChan
			return x.done
		}
		x.done = make(chan struct{})
	}
	x.use()
	return x.done
}

// use starts watching the connection. x.mu is held.
func (x *requestContext) use() {
	if !x.used && x.err == nil {
		x.used = true
		x.conn.wantWatch()
	}
}

// Err implements context.Context.
func (x *requestContext) Err() error {
	if !x.ended.Load() {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// Value has the same values as that of net/http.
func (x *requestContext) Value(key any) any {
	switch key {
	case http.LocalAddrContextKey:
		return x.conn.link.rwc.LocalAddr()
	case http.ServerContextKey:
		return x.conn.server.NetHTTP
	default:
		return nil
	}
}

// AfterFunc is used by package context instead of a goroutine that waits for Done.
func (x *requestContext) AfterFunc(f func()) (stop func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		go f()
		return func() bool { return false }
	}
	if x.afters == nil {
		x.afters = make(map[*func()]struct{})
	}
	x.afters[&f] = struct{}{}
	x.use()
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, waiting := x.afters[&f]
		delete(x.afters, &f)
		return waiting
	}
}

// end ends the context.
func (x *requestContext) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.endLocked()
}

func (x *requestContext) endLocked() {
	if x.err != nil {
		return
	}
	x.err = context.Canceled
	x.ended.Store(true) // before done is closed
	if x.done != nil {
		close(x.done)
	}
	for f := range x.afters {
		go (*f)()
	}
	x.afters = nil
}

// cancel ends the context because the client has disconnected.
func (x *requestContext) cancel() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used = true
	x.endLocked()
}

// reuse prepares the context for a request of a connection. It returns false if that is impossible because a goroutine may wait
// for its end.
func (x *requestContext) reuse(c *conn) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.used || x.done != nil {
		return false
	}
	x.conn, x.err = c, nil
	x.ended.Store(false)
	return true
}
