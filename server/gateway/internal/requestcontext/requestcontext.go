// Package requestcontext implements context.Context for requests of the gateway's own HTTP servers. A context is reused
// for the next request, unless a goroutine may still be waiting until it is done.
package requestcontext

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// An Owner is the connection or stream that serves the request of a Context.
type Owner interface {
	// WatchClient is called at the first call of Done or AfterFunc. From then on, the Owner must call Cancel when the
	// client disconnects.
	WatchClient()
	// ContextValue returns the value of the context for a key; nil if there is none.
	ContextValue(key any) any
}

// A Context is the context of a request. It is done when the request has ended or its client has disconnected. Call
// Reuse before each request, including the first.
type Context struct {
	owner Owner

	// ended is set together with err, so that Err needs no lock until then.
	ended atomic.Bool
	mu    sync.Mutex
	// watched means that a goroutine may be waiting until the context is done, so it must not be reused.
	watched    bool
	done       chan struct{}
	err        error
	afterFuncs map[*func()]struct{}
}

var _ context.Context = (*Context)(nil)

// closedChan is the channel of contexts that ended before Done was called.
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
	x.watch()
	return x.done
}

// watch records that a goroutine waits until the context is done, and asks the owner to watch the client. x.mu is held.
func (x *Context) watch() {
	if !x.watched && x.err == nil {
		x.watched = true
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

// AfterFunc calls f in a goroutine when the context is done. context.AfterFunc and derived contexts call it
// instead of starting a goroutine that waits for Done.
func (x *Context) AfterFunc(f func()) (stop func() bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil {
		go f()
		return func() bool { return false }
	}
	if x.afterFuncs == nil {
		x.afterFuncs = make(map[*func()]struct{})
	}
	x.afterFuncs[&f] = struct{}{}
	x.watch()
	return func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		_, waiting := x.afterFuncs[&f]
		delete(x.afterFuncs, &f)
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
	for f := range x.afterFuncs {
		go (*f)()
	}
	x.afterFuncs = nil
}

// Cancel ends the context because the client has disconnected. The context is not reused.
func (x *Context) Cancel() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.watched = true
	x.endLocked()
}

// Reuse prepares the context for a request. It returns false if the context cannot be reused, because a goroutine may
// still be waiting until it is done.
func (x *Context) Reuse(o Owner) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.watched || x.done != nil {
		return false
	}
	x.owner, x.err = o, nil
	x.ended.Store(false)
	return true
}
