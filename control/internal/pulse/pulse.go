// Package pulse tells those who watch a database that something may have happened to it.
package pulse

import (
	"context"
	"iter"
	"math/rand/v2"
	"sync"
	"time"
)

// A Pulse wakes everybody who waits for it. The zero Pulse is ready for use; it is safe for concurrent use.
type Pulse struct {
	mu     sync.Mutex
	beat   chan struct{} // closed at the next beat; nil if nobody waits
	closed bool
}

// Beat wakes everybody.
func (p *Pulse) Beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.beat != nil && !p.closed {
		close(p.beat)
		p.beat = nil
	}
}

// Close wakes everybody for the last time.
func (p *Pulse) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.beat != nil && !p.closed {
		close(p.beat)
	}
	p.closed = true
}

// next returns what the next beat closes, and whether there will be one.
func (p *Pulse) next() (<-chan struct{}, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.beat == nil {
		p.beat = make(chan struct{})
	}
	return p.beat, !p.closed
}

// Times are how often a Watch looks.
type Times struct {
	// Poll is how often to look without a beat, in case that one was lost; up to a fifth more or less.
	Poll time.Duration
	// Ask is how long one look may take.
	Ask time.Duration
}

// Watch yields what ask returns, first at once, then whenever it has changed, until ctx ends or the pulse is closed. An
// error of ask is as if nothing had changed; it is asked again later.
func (p *Pulse) Watch(ctx context.Context, t Times, ask func(context.Context) (int64, error)) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		last, known := int64(0), false
		for {
			// The beat is taken before looking: what happens after the look ends the wait.
			beat, open := p.next()
			if !open || ctx.Err() != nil {
				return
			}
			asking, cancel := context.WithTimeout(ctx, t.Ask)
			now, err := ask(asking)
			cancel()
			if err == nil && (!known || now != last) {
				if last, known = now, true; !yield(now) {
					return
				}
			}
			timer := time.NewTimer(t.Poll - t.Poll/5 + rand.N(2*t.Poll/5+1))
			select {
			case <-beat:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}
