// Package deadline provides contexts for calls of a store. Their deadline moves if this process, and not the store, is
// slow.
//
// Every call gets a [Context] from a [Tracker]. The tracker has one timer for all contexts, because nearly no call
// reaches its deadline.
package deadline

import (
	"context"
	"sync/atomic"
	"time"
)

// A Context is the context of one call. It ends at its deadline, soon after the caller's context ends, or with End.
type Context struct {
	context.Context // the caller's context
	tracker         *Tracker
	shard           string
	began, deadline time.Time
	done            chan struct{}
	state           atomic.Uint32 // set before done is closed

	// Guarded by Tracker.mu:
	index    int           // in Tracker.active, or -1
	sent     bool          // the call was sent
	extended bool          // the deadline was extended because the shard had just sent something
	extra    time.Duration // how far the deadline was extended
	stop     time.Duration // how long this process was stopped during the call; extends the deadline in addition to extra
}

// States of a Context.
const (
	running  uint32 = iota
	expired         // the deadline has passed
	starved         // all extensions are used up, and this process has not sent the call or not read the response
	canceled        // the caller's context has ended
	ended           // the call has ended
)

var _ context.Context = (*Context)(nil)

// Deadline returns the deadline without extensions.
func (c *Context) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done returns a channel that is closed when the context ends.
func (c *Context) Done() <-chan struct{} { return c.done }

// Err returns why the context has ended, or nil.
func (c *Context) Err() error {
	switch c.state.Load() {
	case running:
		return nil
	case expired, starved:
		return context.DeadlineExceeded
	case canceled:
		return c.Context.Err()
	default:
		return context.Canceled
	}
}

// Starved reports whether the context ended because this process was too busy to send the call or to read the response.
func (c *Context) Starved() bool { return c.state.Load() == starved }

// End ends the context. It must be called when the call has returned.
func (c *Context) End() {
	t := c.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.index >= 0 {
		t.remove(c, ended)
	}
}
