// Package notify implements watches of a database: it checks for changes after notifications and at intervals.
package notify

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"time"
)

// A Notifier makes watches check for changes. The zero Notifier is ready for use. It is safe for concurrent use.
type Notifier struct {
	mu     sync.Mutex
	next   chan struct{} // closed by the next Notify; nil if no watch waits
	closed bool
}

// Notify makes all watches check for a change now.
func (p *Notifier) Notify() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil && !p.closed {
		close(p.next)
		p.next = nil
	}
}

// Close ends all watches.
func (p *Notifier) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil && !p.closed {
		close(p.next)
	}
	p.closed = true
}

// wait returns a channel that the next Notify closes. It returns false if the Notifier is closed.
func (p *Notifier) wait() (<-chan struct{}, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = make(chan struct{})
	}
	return p.next, !p.closed
}

// Timing configures a Watch.
type Timing struct {
	// Poll is the average interval between two checks without a call of Notify, in case a notification is lost. Each
	// interval differs by up to a fifth.
	Poll time.Duration
	// Timeout is the timeout of one check.
	Timeout time.Duration
}

// Watch calls read now and at each check. It yields the first result and each result that differs from the previous
// one, until ctx ends or the Notifier is closed. It ignores errors of read.
func (p *Notifier) Watch(ctx context.Context, t Timing, read func(context.Context) (int64, error)) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		last, known := int64(0), false
		for {
			// Get the channel before the call of read, so that a notification after the call ends the wait.
			notified, open := p.wait()
			if !open || ctx.Err() != nil {
				return
			}
			readCtx, cancel := context.WithTimeout(ctx, t.Timeout)
			now, err := read(readCtx)
			cancel()
			if err == nil && (!known || now != last) {
				if last, known = now, true; !yield(now) {
					return
				}
			}
			timer := time.NewTimer(t.Poll - t.Poll/5 + rand.N(2*t.Poll/5+1))
			select {
			case <-notified:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}
