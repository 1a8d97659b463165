package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/remote"
)

// A Source provides rules.
type Source interface {
	// Name identifies the source for people. Revisions of sources with different names are unrelated.
	Name() string
	// Namespace is the namespace of the rules.
	Namespace() string
	// Watch yields the revision of each change soon after its commit, the current one first, until ctx ends. An error
	// means that revisions may have been missed; Watch continues.
	Watch(ctx context.Context) iter.Seq2[int64, error]
	// Fetch passes the changes since a mark to the sink. If the mark is zero or not in the source's history, or if there
	// are many changes, it passes everything. The header says which. Without changes, it does not call the sink. If it
	// returns an error, the data passed to the sink must not be used.
	Fetch(ctx context.Context, since control.Mark, to Sink) error
	// Heartbeat reports the state of the node. It returns the latest revision and the time until the next heartbeat (0 if
	// the node chooses).
	Heartbeat(ctx context.Context, n control.Node) (latest int64, next time.Duration, err error)
	// Leave reports that the node stops.
	Leave(ctx context.Context, n control.Node) error
}

// A Sink receives fetched objects.
type Sink interface {
	// Begin is called first.
	Begin(control.Header) error
	// Item is called for each object. It must not keep the object.
	Item(*control.Item) error
}

// Remote returns the Source of a remote rules service.
func Remote(c *remote.Client) Source { return remoteSource{c} }

type remoteSource struct{ *remote.Client }

func (r remoteSource) Watch(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		for e, err := range r.Client.Watch(ctx) {
			if !yield(e.Revision, err) {
				return
			}
		}
	}
}

func (r remoteSource) Fetch(ctx context.Context, since control.Mark, to Sink) error {
	s, err := r.Snapshot(ctx, since)
	if err != nil || s == nil {
		return err
	}
	err = drain(s.Reader, to)
	if closed := s.Close(); err == nil {
		err = closed
	}
	return err
}

func (r remoteSource) Heartbeat(ctx context.Context, n control.Node) (int64, time.Duration, error) {
	beat, err := r.Client.Heartbeat(ctx, n)
	return beat.Revision, time.Duration(beat.IntervalMS) * time.Millisecond, err
}

// drain passes all objects of a reader to a sink.
func drain(r *control.Reader, to Sink) error {
	if err := to.Begin(r.Header); err != nil {
		return err
	}
	for {
		item, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && !errors.Is(err, control.ErrBroken):
			return nil
		case err != nil:
			return err
		}
		if err := to.Item(item); err != nil {
			return err
		}
	}
}

// A Register receives heartbeats and stops of nodes. An api.Server is one.
type Register interface {
	Heartbeat(ctx context.Context, n control.Node) (latest int64, err error)
	Leave(ctx context.Context, n control.Node) error
}

// Database returns the Source of a database in this process. It passes heartbeats to nodes, unless nodes is nil.
func Database(db control.DB, namespace string, nodes Register) Source {
	return &databaseSource{db: db, namespace: namespace, nodes: nodes}
}

type databaseSource struct {
	db        control.DB
	namespace string
	nodes     Register
}

func (d *databaseSource) Name() string      { return d.db.Name() }
func (d *databaseSource) Namespace() string { return d.namespace }

func (d *databaseSource) Watch(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		for revision := range d.db.Watch(ctx) {
			if !yield(revision, nil) {
				return
			}
		}
	}
}

const (
	// maxDelta bounds the objects of a change. For more, everything is sent.
	maxDelta = 10_000
	// databaseTimeout bounds a fetch from a database.
	databaseTimeout = 2 * time.Minute
)

func (d *databaseSource) Fetch(ctx context.Context, since control.Mark, to Sink) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	_, current, err := d.db.Revision(ctx, d.namespace)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if since.Revision > 0 && since.Revision <= current {
		mark, err := control.MarkAt(ctx, d.db, since.Revision)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", d.Name(), err)
		case mark != since: // the database was restored or lost changes, and continues from an earlier revision
		case since.Revision == current:
			return nil
		default:
			changed, revision, err := d.db.Since(ctx, d.namespace, since.Revision, maxDelta)
			if err == nil {
				return d.delta(ctx, control.Header{Namespace: d.namespace, Since: since.Revision, Revision: revision}, changed, to)
			}
			if !errors.Is(err, control.ErrPruned) {
				return fmt.Errorf("%s: %w", d.Name(), err)
			}
		}
	}
	return d.snapshot(ctx, current, to)
}

func (d *databaseSource) delta(ctx context.Context, h control.Header, changed []control.Object, to Sink) error {
	mark, err := control.MarkAt(ctx, d.db, h.Revision)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	h.Time = mark.Time()
	if err := to.Begin(h); err != nil {
		return err
	}
	for i := range changed {
		if err := to.Item(changed[i].Item()); err != nil {
			return err
		}
	}
	return nil
}

// snapshot passes all objects. The header names the revision and comes first, so if a newer one is read, snapshot
// returns an error and the Follower calls again.
func (d *databaseSource) snapshot(ctx context.Context, current int64, to Sink) error {
	mark, err := control.MarkAt(ctx, d.db, current)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if err := to.Begin(control.Header{Namespace: d.namespace, Revision: current, Time: mark.Time()}); err != nil {
		return err
	}
	revision, err := d.db.Snapshot(ctx, d.namespace, func(o *control.Object) error { return to.Item(o.Item()) })
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if revision != current {
		return fmt.Errorf("%s: %w to revision %d while %d was read", d.Name(), errChangedWhileRead, revision, current)
	}
	return nil
}

// errChangedWhileRead means that the rules changed while they were read. They can be read again immediately.
var errChangedWhileRead = errors.New("the rules changed")

func (d *databaseSource) Heartbeat(ctx context.Context, n control.Node) (int64, time.Duration, error) {
	if d.nodes == nil {
		return 0, 0, nil
	}
	latest, err := d.nodes.Heartbeat(ctx, n)
	return latest, 0, err
}

func (d *databaseSource) Leave(ctx context.Context, n control.Node) error {
	if d.nodes == nil {
		return nil
	}
	return d.nodes.Leave(ctx, n)
}
