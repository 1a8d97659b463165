package api

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/control"
)

// snapshots are what nodes are sent, made once for all who ask at the same time.
type snapshots struct {
	mu      sync.Mutex
	made    map[snapshotKey]*encoded
	order   []snapshotKey // the last used last
	size    int64
	pending map[snapshotKey]*making
}

// markOf returns the mark of a revision as the database has it now.
func markOf(ctx context.Context, db control.DB, revision int64) (control.Mark, error) {
	if revision == 0 {
		return control.Mark{}, nil
	}
	at, err := db.Committed(ctx, revision)
	return control.MarkOf(revision, at), err
}

// A snapshotKey is what is asked for: since is zero for all of a namespace.
type snapshotKey struct {
	namespace string
	since     control.Mark
	mark      control.Mark // what it leads to
}

// encoded is what is sent, compressed.
type encoded struct {
	since, mark control.Mark
	gzip        []byte
}

// A making is one that somebody makes while others wait.
type making struct {
	done chan struct{}
	made *encoded
	err  error
}

// maxSince is how many objects are sent as what has changed; for more all are sent.
const maxSince = 10_000

// snapshotTime is how long it may take to make a snapshot, and to send it.
const (
	snapshotTime = 2 * time.Minute
	sendTime     = 2 * time.Minute
)

// snapshot answers GET /v1/snapshot.
func (s *Server) snapshot(c *call) error {
	since, err := c.since()
	if err != nil {
		return err
	}
	known, err := c.condition("If-None-Match")
	if err != nil {
		return err
	}
	_, revision, err := s.config.DB.Revision(c.r.Context(), c.namespace)
	if err != nil {
		return err
	}
	mark, err := markOf(c.r.Context(), s.config.DB, revision)
	if err != nil {
		return err
	}
	h := c.w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Vary", "Accept-Encoding, Authorization")
	if known.any && revision > 0 || slices.Contains(known.texts, mark.String()) {
		h.Set("ETag", quoted(mark))
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	e, err := s.encoded(c.r.Context(), snapshotKey{c.namespace, since, mark})
	if err != nil {
		return err
	}
	h.Set("ETag", quoted(e.mark))
	h.Set("Content-Type", control.SnapshotType)
	c.give(bodyTime, sendTime)
	if acceptsGzip(c.r) {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(e.gzip)))
		_, _ = c.w.Write(e.gzip) // a node that is gone comes back
		return nil
	}
	plain, err := gzip.NewReader(bytes.NewReader(e.gzip))
	if err != nil {
		return fmt.Errorf("read a snapshot: %w", err)
	}
	_, _ = io.Copy(c.w, plain) // as above; the node sees that the end is missing
	return nil
}

func quoted(m control.Mark) string { return `"` + m.String() + `"` }

// unmarked is the time of a revision that was given as a number alone.
const unmarked = -1

// since reads from where on changes are wanted: a mark or, from people, a number, which is taken to be of this database.
func (c *call) since() (control.Mark, error) {
	text := c.query.Get("since")
	if strings.Contains(text, "-") {
		m, err := control.ParseMark(text)
		if err != nil {
			return m, wrongQuery("since", text, "a revision, or the ETag of a snapshot without its quotes")
		}
		return m, nil
	}
	n, err := c.number("since", 0, 0, 1<<62)
	if err != nil || n == 0 {
		return control.Mark{}, err
	}
	return control.Mark{Revision: n, At: unmarked}, nil
}

// acceptsGzip reports whether the caller reads gzip.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(part, ";")
		if name = strings.TrimSpace(name); name == "gzip" || name == "*" {
			weight = strings.ReplaceAll(weight, " ", "")
			return weight != "q=0" && !strings.HasPrefix(weight, "q=0.000") && weight != "q=0.0" && weight != "q=0.00"
		}
	}
	return false
}

// encoded returns what is sent, made now if nobody has asked for it before.
func (s *Server) encoded(ctx context.Context, key snapshotKey) (*encoded, error) {
	c := &s.snapshots
	c.mu.Lock()
	if e := c.made[key]; e != nil {
		c.use(key)
		c.mu.Unlock()
		return e, nil
	}
	m := c.pending[key]
	if m == nil {
		m = &making{done: make(chan struct{})}
		if c.pending == nil {
			c.pending = make(map[snapshotKey]*making)
		}
		c.pending[key] = m
		s.running.Go(func() { s.make(key, m) }) // for all who wait, whoever of them goes
	}
	c.mu.Unlock()
	select {
	case <-m.done:
		return m.made, m.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// make makes one and keeps it.
func (s *Server) make(key snapshotKey, m *making) {
	ctx, cancel := context.WithTimeout(s.ended, snapshotTime)
	defer cancel()
	m.made, m.err = s.encode(ctx, key)
	c := &s.snapshots
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, key)
	if m.err == nil && m.made.since == key.since { // else it is kept as the whole that it is
		c.keep(snapshotKey{key.namespace, key.since, m.made.mark}, m.made, s.config.MaxCached)
	}
	close(m.done)
}

// use says that one was used just now.
func (c *snapshots) use(key snapshotKey) {
	for i := range c.order {
		if c.order[i] == key {
			copy(c.order[i:], c.order[i+1:])
			c.order[len(c.order)-1] = key
			return
		}
	}
}

// keep keeps one for who asks next, and forgets what nobody will ask for: others of the same namespace that lead to an
// earlier revision, and those that were used longest ago if there is no room.
func (c *snapshots) keep(key snapshotKey, e *encoded, most int64) {
	if c.made == nil {
		c.made = make(map[snapshotKey]*encoded)
	}
	left := c.order[:0]
	for _, k := range c.order {
		if k == key || k.namespace == key.namespace && k.mark.Revision < key.mark.Revision {
			c.size -= int64(len(c.made[k].gzip))
			delete(c.made, k)
			continue
		}
		left = append(left, k)
	}
	c.order = left
	size := int64(len(e.gzip))
	if size > most {
		return
	}
	for len(c.order) > 0 && (c.size+size > most || len(c.order) >= maxKept) {
		c.size -= int64(len(c.made[c.order[0]].gzip))
		delete(c.made, c.order[0])
		c.order = c.order[1:]
	}
	c.made[key] = e
	c.order = append(c.order, key)
	c.size += size
}

// maxKept is how many snapshots and deltas are kept.
const maxKept = 256

// encode makes one: what has changed if the log tells, else all.
func (s *Server) encode(ctx context.Context, key snapshotKey) (*encoded, error) {
	if key.since.Revision > 0 {
		e, err := s.encodeSince(ctx, key)
		if !errors.Is(err, control.ErrPruned) {
			return e, err
		}
		return s.encoded(ctx, snapshotKey{namespace: key.namespace, mark: key.mark})
	}
	e, err := s.encodeAll(ctx, key.namespace, key.mark)
	if err != nil || e.mark == key.mark {
		return e, err
	}
	// It was changed between the question which revision it has and the look at it: only its beginning is wrong.
	return s.rewrite(key.namespace, e)
}

// encodeSince makes what has changed. It is control.ErrPruned if the log does not tell, or tells of another past.
func (s *Server) encodeSince(ctx context.Context, key snapshotKey) (*encoded, error) {
	if key.since.At != unmarked {
		was, err := markOf(ctx, s.config.DB, key.since.Revision)
		if err != nil {
			return nil, err
		}
		if was != key.since {
			return nil, fmt.Errorf("revision %d is not the one that is meant: %w", was.Revision, control.ErrPruned)
		}
	}
	changed, revision, err := s.config.DB.Since(ctx, key.namespace, key.since.Revision, maxSince)
	if err != nil {
		return nil, err
	}
	return s.encodeDelta(ctx, key, changed, revision)
}

func (s *Server) encodeDelta(ctx context.Context, key snapshotKey, changed []control.Object, revision int64) (*encoded, error) {
	mark, err := markOf(ctx, s.config.DB, revision)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w, err := control.NewWriter(z, control.Header{Namespace: key.namespace, Revision: revision, Since: key.since.Revision, Time: mark.Time()})
	if err != nil {
		return nil, err
	}
	for i := range changed {
		if err := w.Write(itemFor(&changed[i])); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return &encoded{since: key.since, mark: mark, gzip: out.Bytes()}, nil
}

func itemFor(o *control.Object) *control.Item {
	return &control.Item{Kind: o.Kind, ID: o.ID, Revision: o.Revision, Body: o.Body, Deleted: o.Body == nil}
}

// encodeAll makes a snapshot that says it is of a mark. It returns with it which it is of.
func (s *Server) encodeAll(ctx context.Context, namespace string, says control.Mark) (*encoded, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	w, err := control.NewWriter(z, control.Header{Namespace: namespace, Revision: says.Revision, Time: says.Time()})
	if err != nil {
		return nil, err
	}
	is, err := s.config.DB.Snapshot(ctx, namespace, func(o *control.Object) error { return w.Write(itemFor(o)) })
	if err != nil {
		return nil, err
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	mark, err := markOf(ctx, s.config.DB, is)
	return &encoded{mark: mark, gzip: out.Bytes()}, err
}

// rewrite makes a snapshot say which mark it is of.
func (s *Server) rewrite(namespace string, e *encoded) (*encoded, error) {
	plain, err := gzip.NewReader(bytes.NewReader(e.gzip))
	if err != nil {
		return nil, err
	}
	r, err := control.NewReader(plain)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	w, err := control.NewWriter(z, control.Header{Namespace: namespace, Revision: e.mark.Revision, Time: e.mark.Time()})
	if err != nil {
		return nil, err
	}
	for {
		item, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = w.Write(item)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return &encoded{mark: e.mark, gzip: out.Bytes()}, nil
}
