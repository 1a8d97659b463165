// Package requestcontext has the contexts of requests in the gateway's own HTTP servers. A context is reused for the
// next request, unless a goroutine may still wait for its end.
package requestcontext

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// An Owner serves the request.
type Owner interface {
	// WatchClient is called at the first call of Done or AfterFunc. From then on, the Owner must call Cancel when the
	// client disconnects.
	WatchClient()
	// ContextValue returns the value of the context for a key; nil if there is none.
	ContextValue(key any) any
}

// A Context is the context of a request. It ends when the request has ended or its client has disconnected. Call Reuse
// before each request, including the first.
type Context struct {
	owner Owner

	ended  atomic.Bool // err is set; saves the lock in Err
	mu     sync.Mutex
	used   bool // a goroutine may wait for the end, so the context must not be reused
	done   chan struct{}
	err    error
	afters map[*func()]struct{}
}

var _ context.Context = (*Context)(nil)

// closedChan is the channel of contexts that have ended before Done was called.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Deadline implements context.Context. The context has no deadline.
func (x *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements context.Context.
func (x *Context) Done() <-chan struct{} {
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

// use records that a goroutine waits for the end, and asks the owner to watch the client. x.mu is held.
func (x *Context) use() {
	if !x.used && x.err == nil {
		x.used = true
		x.owner.WatchClient()
	}
}

// Err implements context.Context.
func (x *Context) Err() error {
	if !x.ended.Load() {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err
}

// Value implements context.Context.
func (x *Context) Value(key any) any { return x.owner.ContextValue(key) }

// AfterFunc calls f in a goroutine when the context has ended. context.AfterFunc and derived contexts call it
// instead of starting a goroutine that waits for Done.
func (x *Context) AfterFunc(f func()) (stop func() bool) {
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

// End ends the context.
func (x *Context) End() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.endLocked()
}

func (x *Context) endLocked() {
	if x.err != nil {
		return
	}
	x.err = context.Canceled
	x.ended.Store(true) // before done is closed, so that Err is not nil after Done
	if x.done != nil {
		close(x.done)
	}
	for f := range x.afters {
		go (*f)()
	}
	x.afters = nil
}

// Cancel ends the context because the client has disconnected. The context is not reused.
func (x *Context) Cancel() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used = true
	x.endLocked()
}

// Reuse prepares the context for a request. It returns false if the context cannot be reused, because a goroutine may
// still wait for its end.
func (x *Context) Reuse(o Owner) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.used || x.done != nil {
		return false
	}
	x.owner, x.err = o, nil
	x.ended.Store(false)
	return true
}
