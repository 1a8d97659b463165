package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/token"
)

const (
	// smallBody is the size in bytes below which a body is not large.
	smallBody = 8 << 10
	// maxLarge is the maximum number of large bodies in memory.
	maxLarge = 2
	// largeTimeout is how long a call waits until it may send a large body.
	largeTimeout = 30 * time.Second
)

// largeBodies limits how many large bodies are in memory at once: one of each token, and those of viewers leave room
// for one of an editor.
type largeBodies struct {
	mu       sync.Mutex
	tokens   map[string]bool // IDs of the tokens with a large body
	viewers  int             // how many of them are viewers or nodes
	released chan struct{}   // closed and replaced when a body is released
}

// acquire waits until the caller may send a large body.
func (l *largeBodies) acquire(ctx context.Context, caller *token.Principal) (release func(), err error) {
	id, viewer := "", true
	if caller != nil {
		id, viewer = caller.ID, caller.Role == token.Viewer || caller.Role == token.Node
	}
	timeout := time.NewTimer(largeTimeout)
	defer timeout.Stop()
	for {
		released := l.tryAcquire(id, viewer)
		if released == nil {
			return func() { l.release(id, viewer) }, nil
		}
		select {
		case <-released:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			p := problem.New(http.StatusServiceUnavailable, "Other large bodies are being read. Try again.")
			p.RetryAfter = time.Second
			return nil, p
		}
	}
}

// tryAcquire returns nil if the caller may send a large body, else a channel that is closed when to try again.
func (l *largeBodies) tryAcquire(id string, viewer bool) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tokens == nil {
		l.tokens, l.released = make(map[string]bool), make(chan struct{})
	}
	if l.tokens[id] || len(l.tokens) >= maxLarge || viewer && l.viewers >= maxLarge-1 {
		return l.released
	}
	l.tokens[id] = true
	if viewer {
		l.viewers++
	}
	return nil
}

func (l *largeBodies) release(id string, viewer bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tokens, id)
	if viewer {
		l.viewers--
	}
	close(l.released)
	l.released = make(chan struct{})
}
