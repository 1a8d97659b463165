package downstream

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A requestContext is the context of a request. It ends when the request is over or its client has hung up, and looks for the
// latter only once somebody wants to know.
type requestContext struct {
	conn *conn

	over   atomic.Bool // there is an err, which spares most who ask for that the lock
	mu     sync.Mutex
	used   bool // somebody may wait for its end
	done   chan struct{}
	err    error
	afters map[*func()]struct{}
}

var _ context.Context = (*requestContext)(nil)

// closedChan is that of contexts that have ended before anybody asked.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline is none.
func (x *requestContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed at the end.
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

// use has the connection watched. x.mu is held.
func (x *requestContext) use() {
	if !x.used && x.err == nil {
		x.used = true
		x.conn.wantWatch()
	}
}

// Err is nil until the end.
func (x *requestContext) Err() error {
	if !x.over.Load() {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// Value has the address at which the client has connected, and that there is a server: some handlers panic for it only.
func (x *requestContext) Value(key any) any {
	switch key {
	case http.LocalAddrContextKey:
		return x.conn.rwc.LocalAddr()
	case http.ServerContextKey:
		return x.conn.server.Rest
	default:
		return nil
	}
}

// AfterFunc is what package context uses in place of a goroutine that waits for Done.
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

// end ends it.
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
	x.over.Store(true) // before anybody who waits is told
	if x.done != nil {
		close(x.done)
	}
	for f := range x.afters {
		go (*f)()
	}
	x.afters = nil
}

// cancel ends it because the client has hung up.
func (x *requestContext) cancel() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used = true
	x.endLocked()
}

// again makes it that of the next request. It reports whether that is possible: nobody may wait for its end.
func (x *requestContext) again() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.used || x.done != nil {
		return false
	}
	x.err = nil
	x.over.Store(false)
	return true
}
