package call

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control/internal/problem"
	"github.com/headgate/headgate/server/control/token"
)

const (
	// minLargeBody is the minimum size of a large body in bytes.
	minLargeBody = 8 << 10
	// maxLarge is the maximum number of large bodies in memory.
	maxLarge = 2
	// largeTimeout is how long a call waits until there is memory for its large body.
	largeTimeout = 30 * time.Second
)

// Bodies limits the size of the bodies of all calls to a server, and the number of large bodies in memory. Each token
// may have one large body at a time. Viewers, nodes and calls without a token may have maxLarge-1 together, so that one
// remains for editors and admins. Bodies is safe for concurrent use.
type Bodies struct {
	maxBytes int64

	mu          sync.Mutex
	tokens      map[string]bool // IDs of the tokens with a large body
	lowPriority int             // number of these IDs that belong to viewers, nodes or calls without a token
	released    chan struct{}   // closed and replaced when a body is released
}

// NewBodies returns Bodies of at most maxBytes each.
func NewBodies(maxBytes int64) *Bodies {
	return &Bodies{maxBytes: maxBytes, tokens: make(map[string]bool), released: make(chan struct{})}
}

// acquire waits until the caller may send a large body.
func (b *Bodies) acquire(ctx context.Context, caller *token.Principal) (release func(), err error) {
	id, lowPriority := "", true
	if caller != nil {
		id, lowPriority = caller.ID, caller.Role == token.Viewer || caller.Role == token.Node
	}
	timeout := time.NewTimer(largeTimeout)
	defer timeout.Stop()
	for {
		released := b.tryAcquire(id, lowPriority)
		if released == nil {
			return func() { b.release(id, lowPriority) }, nil
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

// tryAcquire returns nil if the caller may send a large body. Otherwise it returns a channel that is closed when the
// caller should try again.
func (b *Bodies) tryAcquire(id string, lowPriority bool) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens[id] || len(b.tokens) >= maxLarge || lowPriority && b.lowPriority >= maxLarge-1 {
		return b.released
	}
	b.tokens[id] = true
	if lowPriority {
		b.lowPriority++
	}
	return nil
}

func (b *Bodies) release(id string, lowPriority bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tokens, id)
	if lowPriority {
		b.lowPriority--
	}
	close(b.released)
	b.released = make(chan struct{})
}
