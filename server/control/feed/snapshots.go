package feed

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
)

// AnyTime is the CommitMicros of a mark whose commit time need not match.
const AnyTime = -1

// A Request is a node's request for the content of a namespace.
type Request struct {
	Namespace string
	// Since is the mark of the content that the node has. The zero Mark requests all content.
	Since control.Mark
	// Current is the namespace's current mark. The response may have a later one.
	Current control.Mark
}

// A Snapshot is the encoded content of a namespace, or the changes since a mark.
type Snapshot struct {
	Mark control.Mark
	Gzip []byte

	since control.Mark
}

// Snapshots encodes content for nodes, and caches it. Concurrent requests for the same content share one encoding. It
// is safe for concurrent use.
type Snapshots struct {
	db        control.DB
	maxBytes  int64
	ctx       context.Context // canceled by Close, to end encodings
	stop      context.CancelFunc
	encodings sync.WaitGroup

	mu      sync.Mutex
	cached  map[Request]*Snapshot
	order   []Request // keys of cached, the least recently used first
	size    int64     // of cached, in bytes
	pending map[Request]*encoding
}

// An encoding is a snapshot that is being encoded.
type encoding struct {
	done     chan struct{} // closed when the other fields are set
	snapshot *Snapshot
	err      error
}

const (
	// maxCached is the maximum number of cached snapshots.
	maxCached = 256
	// encodeTimeout limits one encoding.
	encodeTimeout = 2 * time.Minute
)

// NewSnapshots returns a cache of up to maxBytes.
func NewSnapshots(db control.DB, maxBytes int64) *Snapshots {
	s := &Snapshots{
		db: db, maxBytes: maxBytes, cached: make(map[Request]*Snapshot), pending: make(map[Request]*encoding),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close stops encodings and waits for them. Get must not be called after Close.
func (s *Snapshots) Close() {
	s.stop()
	s.encodings.Wait()
}

// Get returns the content of a request, from the cache if possible.
func (s *Snapshots) Get(ctx context.Context, r Request) (*Snapshot, error) {
	s.mu.Lock()
	if snapshot := s.cached[r]; snapshot != nil {
		i := slices.Index(s.order, r)
		s.order = append(slices.Delete(s.order, i, i+1), r)
		s.mu.Unlock()
		return snapshot, nil
	}
	e := s.pending[r]
	if e == nil {
		e = &encoding{done: make(chan struct{})}
		s.pending[r] = e
		s.encodings.Go(func() { s.run(r, e) }) // independent of ctx, because other requests may wait for the encoding
	}
	s.mu.Unlock()
	select {
	case <-e.done:
		return e.snapshot, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run encodes the content of a request and caches it.
func (s *Snapshots) run(r Request, e *encoding) {
	ctx, cancel := context.WithTimeout(s.ctx, encodeTimeout)
	defer cancel()
	e.snapshot, e.err = s.encode(ctx, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pending, r)
	// If changes were requested and encode returned all content instead, the call of Get in encode has cached it.
	if e.err == nil && e.snapshot.since == r.Since {
		s.cache(Request{r.Namespace, r.Since, e.snapshot.Mark}, e.snapshot)
	}
	close(e.done)
}

// cache adds a snapshot. It removes the namespace's snapshots of earlier revisions, which are no longer requested, and,
// if there is no room, the least recently used snapshots.
func (s *Snapshots) cache(r Request, snapshot *Snapshot) {
	for _, old := range slices.Clone(s.order) {
		if old == r || old.Namespace == r.Namespace && old.Current.Revision < r.Current.Revision {
			s.remove(old)
		}
	}
	size := int64(len(snapshot.Gzip))
	if size > s.maxBytes {
		return
	}
	for len(s.order) > 0 && (s.size+size > s.maxBytes || len(s.order) >= maxCached) {
		s.remove(s.order[0])
	}
	s.cached[r] = snapshot
	s.order = append(s.order, r)
	s.size += size
}

func (s *Snapshots) remove(r Request) {
	s.size -= int64(len(s.cached[r].Gzip))
	delete(s.cached, r)
	i := slices.Index(s.order, r)
	s.order = slices.Delete(s.order, i, i+1)
}

// encode encodes the changes since the node's mark if the log has them, otherwise all content.
func (s *Snapshots) encode(ctx context.Context, r Request) (*Snapshot, error) {
	if r.Since.Revision == 0 {
		return s.encodeAll(ctx, r.Namespace, r.Current)
	}
	changes, err := s.encodeChanges(ctx, r)
	if errors.Is(err, control.ErrPruned) {
		return s.Get(ctx, Request{Namespace: r.Namespace, Current: r.Current})
	}
	return changes, err
}

// maxChanges is the maximum number of objects in a snapshot of changes. If more have changed, all content is sent.
const maxChanges = 10_000

// encodeChanges encodes the changes since the node's mark. The error is control.ErrPruned if the log does not reach
// back that far, or if the revision has another commit time, because the database was restored.
func (s *Snapshots) encodeChanges(ctx context.Context, r Request) (*Snapshot, error) {
	if r.Since.CommitMicros != AnyTime {
		mark, err := control.LoadMark(ctx, s.db, r.Since.Revision)
		if err != nil {
			return nil, err
		}
		if mark != r.Since {
			return nil, fmt.Errorf("revision %d has another commit time: %w", mark.Revision, control.ErrPruned)
		}
	}
	objects, revision, err := s.db.Since(ctx, r.Namespace, r.Since.Revision, maxChanges)
	if err != nil {
		return nil, err
	}
	mark, err := control.LoadMark(ctx, s.db, revision)
	if err != nil {
		return nil, err
	}
	w, err := newWriter(gzip.DefaultCompression, control.Header{
		Namespace: r.Namespace, Revision: revision, Since: r.Since.Revision, Time: mark.Time(),
	})
	if err != nil {
		return nil, err
	}
	for i := range objects {
		if err := w.write(&objects[i]); err != nil {
			return nil, err
		}
	}
	return w.snapshot(mark, r.Since)
}

// encodeAll encodes all content of a namespace. It writes the header, with the expected mark, before it reads the
// content.
func (s *Snapshots) encodeAll(ctx context.Context, namespace string, expected control.Mark) (*Snapshot, error) {
	header := control.Header{Namespace: namespace, Revision: expected.Revision, Time: expected.Time()}
	w, err := newWriter(gzip.BestSpeed, header)
	if err != nil {
		return nil, err
	}
	revision, err := s.db.Snapshot(ctx, namespace, w.write)
	if err != nil {
		return nil, err
	}
	mark, err := control.LoadMark(ctx, s.db, revision)
	if err != nil {
		return nil, err
	}
	snapshot, err := w.snapshot(mark, control.Mark{})
	if err != nil || mark == expected {
		return snapshot, err
	}
	// The namespace was changed before it was read, so the header is wrong.
	return rewrite(snapshot, namespace)
}
