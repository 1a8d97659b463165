// Package notify wakes the watches of a database when it may have changed.
package notify

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"time"
)

// A Notifier wakes all waiting watches. The zero Notifier is ready for use. It is safe for concurrent use.
type Notifier struct {
	mu     sync.Mutex
	next   chan struct{} // closed at the next Notify; nil if nothing waits
	closed bool
}

// Notify wakes all watches.
func (p *Notifier) Notify() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil && !p.closed {
		close(p.next)
		p.next = nil
	}
}

// Close wakes all watches, which then end.
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
	// Poll is the interval between checks without a Notify, plus or minus a fifth. It is for a Notify that was lost.
	Poll time.Duration
	// Timeout bounds one check.
	Timeout time.Duration
}

// Watch yields the result of ask immediately and whenever it has changed, until ctx ends or the Notifier is closed.
// After an error, ask is called again later.
func (p *Notifier) Watch(ctx context.Context, t Timing, ask func(context.Context) (int64, error)) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		last, known := int64(0), false
		for {
			// Take the channel before asking, so that a change after the check ends the wait.
			notified, open := p.wait()
			if !open || ctx.Err() != nil {
				return
			}
			askCtx, cancel := context.WithTimeout(ctx, t.Timeout)
			now, err := ask(askCtx)
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
