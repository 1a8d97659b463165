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
	// Watch yields the current revision, then the revision of each change soon after its commit, until ctx ends. After
	// an error, Watch continues, but revisions may be missing.
	Watch(ctx context.Context) iter.Seq2[int64, error]
	// Fetch passes the changes since a mark to the sink. If the mark is zero or not in the source's history, or if
	// there are many changes, Fetch passes all objects instead, and Since in the header is 0. Without changes, Fetch
	// does not call the sink. If Fetch returns an error, the objects passed to the sink must not be used.
	Fetch(ctx context.Context, since control.Mark, sink Sink) error
	// Heartbeat reports the state of the node. It returns the latest revision and the time until the next heartbeat, 0
	// if the node may choose it.
	Heartbeat(ctx context.Context, n control.Node) (latest int64, next time.Duration, err error)
	// Leave reports that the node is stopping.
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

func (r remoteSource) Fetch(ctx context.Context, since control.Mark, sink Sink) error {
	s, err := r.Snapshot(ctx, since)
	if err != nil || s == nil {
		return err
	}
	err = drain(s.Reader, sink)
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
func drain(r *control.Reader, sink Sink) error {
	if err := sink.Begin(r.Header); err != nil {
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
		if err := sink.Item(item); err != nil {
			return err
		}
	}
}

// A Register receives the heartbeats of nodes, and their reports that they stop. api.Server implements it.
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
	// maxDelta is the maximum number of objects in a delta. If more have changed, all objects are passed.
	maxDelta = 10_000
	// databaseTimeout bounds a fetch from a database.
	databaseTimeout = 2 * time.Minute
)

func (d *databaseSource) Fetch(ctx context.Context, since control.Mark, sink Sink) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	_, current, err := d.db.Revision(ctx, d.namespace)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if since.Revision > 0 && since.Revision <= current {
		mark, err := control.LoadMark(ctx, d.db, since.Revision)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", d.Name(), err)
		case mark != since: // the database was restored or lost changes, and has assigned the revision again
		case since.Revision == current:
			return nil
		default:
			changed, revision, err := d.db.Since(ctx, d.namespace, since.Revision, maxDelta)
			if err == nil {
				h := control.Header{Namespace: d.namespace, Since: since.Revision, Revision: revision}
				return d.delta(ctx, h, changed, sink)
			}
			if !errors.Is(err, control.ErrPruned) {
				return fmt.Errorf("%s: %w", d.Name(), err)
			}
		}
	}
	return d.snapshot(ctx, current, sink)
}

func (d *databaseSource) delta(ctx context.Context, h control.Header, changed []control.Object, sink Sink) error {
	mark, err := control.LoadMark(ctx, d.db, h.Revision)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	h.Time = mark.Time()
	if err := sink.Begin(h); err != nil {
		return err
	}
	for i := range changed {
		if err := sink.Item(changed[i].Item()); err != nil {
			return err
		}
	}
	return nil
}

// snapshot passes all objects. The header with the revision comes first. If the objects read after it are of a newer
// revision, snapshot returns errChangedWhileRead, and the Follower calls it again.
func (d *databaseSource) snapshot(ctx context.Context, current int64, sink Sink) error {
	mark, err := control.LoadMark(ctx, d.db, current)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if err := sink.Begin(control.Header{Namespace: d.namespace, Revision: current, Time: mark.Time()}); err != nil {
		return err
	}
	revision, err := d.db.Snapshot(ctx, d.namespace, func(o *control.Object) error { return sink.Item(o.Item()) })
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if revision != current {
		return fmt.Errorf("%s: %w to revision %d while %d was read", d.Name(), errChangedWhileRead, revision, current)
	}
	return nil
}

// errChangedWhileRead means that the rules changed while snapshot read them. The caller can retry immediately.
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
