// Package feed supplies nodes with rules. A Hub notifies them of new revisions. Snapshots encodes the content that they
// then fetch, once for all nodes.
package feed

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Hub notifies any number of watchers of new revisions, with a single watch of the database. It is safe for
// concurrent use.
type Hub struct {
	db          control.DB
	logger      *slog.Logger
	maxWatchers int
	changed     chan struct{} // signals that the revisions must be read again

	mu       sync.Mutex
	watchers map[string]map[*Watcher]struct{} // by namespace
	count    int
}

// NewHub returns a Hub for at most maxWatchers watchers. Run must be called to notify them.
func NewHub(db control.DB, maxWatchers int, logger *slog.Logger) *Hub {
	return &Hub{
		db: db, logger: logger, maxWatchers: maxWatchers,
		changed: make(chan struct{}, 1), watchers: make(map[string]map[*Watcher]struct{}),
	}
}

// A Watcher receives the revisions of one namespace. It must be closed.
type Watcher struct {
	hub       *Hub
	namespace string
	updates   chan struct{}

	// The hub's mutex guards the following fields.
	known      bool         // mark is set
	mark       control.Mark // the latest mark
	renumbered bool
}

// ErrTooManyWatchers means that the hub has the maximum number of watchers.
var ErrTooManyWatchers = errors.New("too many watchers")

// Watch adds a watcher of a namespace, and returns it with the current revision.
func (h *Hub) Watch(ctx context.Context, namespace string) (*Watcher, int64, error) {
	w := &Watcher{hub: h, namespace: namespace, updates: make(chan struct{}, 1)}
	if err := h.add(w); err != nil {
		return nil, 0, err
	}
	// Read after the watcher was added, so that it misses no revision.
	mark, err := control.LoadCurrentMark(ctx, h.db, namespace)
	if err != nil {
		w.Close()
		return nil, 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.known {
		w.known, w.mark = true, mark
	}
	return w, mark.Revision, nil
}

func (h *Hub) add(w *Watcher) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count >= h.maxWatchers {
		return ErrTooManyWatchers
	}
	h.count++
	if h.watchers[w.namespace] == nil {
		h.watchers[w.namespace] = make(map[*Watcher]struct{})
	}
	h.watchers[w.namespace][w] = struct{}{}
	return nil
}

// Close removes the watcher. Closing again does nothing.
func (w *Watcher) Close() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, open := h.watchers[w.namespace][w]; !open {
		return
	}
	h.count--
	if delete(h.watchers[w.namespace], w); len(h.watchers[w.namespace]) == 0 {
		delete(h.watchers, w.namespace)
	}
}

// Updates signals that Latest may have changed.
func (w *Watcher) Updates() <-chan struct{} { return w.updates }

// Latest returns the latest revision. renumbered reports whether the same number now stands for another change, because
// the database was restored or has lost changes. The client must then fetch all content again.
func (w *Watcher) Latest() (revision int64, renumbered bool) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return w.mark.Revision, w.renumbered
}

// update sets the latest mark, and signals a change.
func (w *Watcher) update(mark control.Mark) {
	if w.known && w.mark == mark {
		return
	}
	// The time is 0 if the change is no longer in the log. Then it cannot be compared.
	if w.known && w.mark.Revision == mark.Revision && w.mark.CommitMicros != 0 && mark.CommitMicros != 0 {
		w.renumbered = true
	}
	w.known, w.mark = true, mark
	select {
	case w.updates <- struct{}{}:
	default: // the previous signal was not received yet
	}
}

// Watchers returns the number of watchers.
func (h *Hub) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// Notify reports a change by this process. The watch of the database reports all changes, but later.
func (h *Hub) Notify() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// Run notifies watchers until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		for range h.db.Watch(ctx) {
			h.Notify()
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
			h.updateAll(ctx)
		}
	}
}

// readTimeout limits the query for the revision of a namespace.
const readTimeout = time.Minute

// updateAll reads the revisions of all watched namespaces.
func (h *Hub) updateAll(ctx context.Context) {
	h.mu.Lock()
	namespaces := slices.Collect(maps.Keys(h.watchers))
	h.mu.Unlock()
	for _, namespace := range namespaces {
		readCtx, cancel := context.WithTimeout(ctx, readTimeout)
		mark, err := control.LoadCurrentMark(readCtx, h.db, namespace)
		cancel()
		if err == nil {
			h.update(namespace, mark)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		h.logger.Warn("rules service: cannot read the revision of a namespace, trying again",
			"namespace", namespace, "err", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
			h.Notify()
		}
	}
}

func (h *Hub) update(namespace string, mark control.Mark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers[namespace] {
		w.update(mark)
	}
}
