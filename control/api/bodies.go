package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/headgate/headgate/rules/source"
)

// bodyBounds are those of a body: reading one takes at most 64 MB. Ten thousand rules of JSON are within them.
var bodyBounds = source.Bounds{JSONTokens: 300_000, JSONItems: 50_000, YAMLBytes: 512 << 10, YAMLTokens: 80_000}

const (
	// smallBody is how long a body is that is read without waiting for others.
	smallBody = 8 << 10
	// maxLarge is how many larger ones are read and parsed at once.
	maxLarge = 2
	// largeWait is how long a call waits until it may send a larger one.
	largeWait = 30 * time.Second
)

// largeBodies bounds how many large bodies are in memory at once: one of each token, and viewers' leave room for an editor's.
type largeBodies struct {
	mu      sync.Mutex
	busy    map[string]bool // tokens
	viewers int
	changed chan struct{} // closed when one ends
}

// enter waits for its turn, and returns what ends it.
func (l *largeBodies) enter(ctx context.Context, who *principal) (leave func(), err error) {
	id, viewer := "", true
	if who != nil {
		id, viewer = who.ID, who.Role == Viewer || who.Role == Node
	}
	timeout := time.NewTimer(largeWait)
	defer timeout.Stop()
	for {
		changed := l.take(id, viewer)
		if changed == nil {
			return func() { l.give(id, viewer) }, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			p := fail(http.StatusServiceUnavailable, "Other large bodies are being read. Try again.")
			p.retryAfter = time.Second
			return nil, p
		}
	}
}

// take returns nil if it is the caller's turn, else a channel that is closed when it may be.
func (l *largeBodies) take(id string, viewer bool) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy == nil {
		l.busy, l.changed = make(map[string]bool), make(chan struct{})
	}
	if l.busy[id] || len(l.busy) >= maxLarge || viewer && l.viewers >= maxLarge-1 {
		return l.changed
	}
	l.busy[id] = true
	if viewer {
		l.viewers++
	}
	return nil
}

func (l *largeBodies) give(id string, viewer bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, id)
	if viewer {
		l.viewers--
	}
	close(l.changed)
	l.changed = make(chan struct{})
}
