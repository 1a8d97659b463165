package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/remote"
)

// A Source is where rules come from.
type Source interface {
	// Name says which it is, for people. Revisions of sources of different names have nothing to do with each other.
	Name() string
	// Namespace is whose rules they are.
	Namespace() string
	// Watch yields the revision of each change soon after it was made, the present one first, until ctx ends. An error says
	// that it may have missed some, and it goes on.
	Watch(ctx context.Context) iter.Seq2[int64, error]
	// Fetch gives the sink what has changed since a mark, or everything, as the header says: so it does if the mark is none of
	// its past. It calls nobody if there is nothing else. It has succeeded only if the error is nil: what the sink got before is not to be used.
	Fetch(ctx context.Context, since control.Mark, to Sink) error
	// Beat says how the node is, and returns the latest revision and when to come again (0 if that is the node's choice).
	Beat(ctx context.Context, n control.Node) (latest int64, next time.Duration, err error)
	// Leave says that the node stops.
	Leave(ctx context.Context, n control.Node) error
}

// A Sink takes what is fetched.
type Sink interface {
	// Begin is called first.
	Begin(control.Header) error
	// Item is called for each object. It keeps nothing of it.
	Item(*control.Item) error
}

// Remote returns a rules service elsewhere.
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

func (r remoteSource) Beat(ctx context.Context, n control.Node) (int64, time.Duration, error) {
	beat, err := r.Heartbeat(ctx, n)
	return beat.Revision, time.Duration(beat.IntervalMS) * time.Millisecond, err
}

// drain gives a sink all that a reader has.
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

// A Register is told how nodes are, and that they stop. An api.Server is one.
type Register interface {
	Beat(ctx context.Context, n control.Node) (latest int64, err error)
	Leave(ctx context.Context, n control.Node) error
}

// Database returns a database in this process. Heartbeats go to the register, unless it is nil.
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
	// maxDelta is how many objects are sent as a change. More are sent as everything.
	maxDelta = 10_000
	// databaseTimeout is how long a database may take for all of it.
	databaseTimeout = 2 * time.Minute
)

func (d *databaseSource) Fetch(ctx context.Context, since control.Mark, to Sink) error {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	_, present, err := d.db.Revision(ctx, d.namespace)
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if since.Revision > 0 && since.Revision <= present {
		was, err := d.mark(ctx, since.Revision)
		switch {
		case err != nil:
			return err
		case was != since: // it was restored, or has lost changes, and counts on from an earlier revision
		case since.Revision == present:
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
	return d.whole(ctx, present, to)
}

// mark returns that of a revision.
func (d *databaseSource) mark(ctx context.Context, revision int64) (control.Mark, error) {
	if revision == 0 {
		return control.Mark{}, nil
	}
	at, err := d.db.Committed(ctx, revision)
	if err != nil {
		return control.Mark{}, fmt.Errorf("%s: %w", d.Name(), err)
	}
	return control.MarkOf(revision, at), nil
}

func (d *databaseSource) delta(ctx context.Context, h control.Header, changed []control.Object, to Sink) error {
	mark, err := d.mark(ctx, h.Revision)
	if err != nil {
		return err
	}
	h.Time = mark.Time()
	if err := to.Begin(h); err != nil {
		return err
	}
	for i := range changed {
		if err := to.Item(itemOf(&changed[i])); err != nil {
			return err
		}
	}
	return nil
}

// whole gives all objects. The header comes first and names the revision, so it starts over if there is a later one by then:
// to be called again is what the Follower does with an error.
func (d *databaseSource) whole(ctx context.Context, present int64, to Sink) error {
	mark, err := d.mark(ctx, present)
	if err != nil {
		return err
	}
	if err := to.Begin(control.Header{Namespace: d.namespace, Revision: present, Time: mark.Time()}); err != nil {
		return err
	}
	revision, err := d.db.Snapshot(ctx, d.namespace, func(o *control.Object) error { return to.Item(itemOf(o)) })
	if err != nil {
		return fmt.Errorf("%s: %w", d.Name(), err)
	}
	if revision != present {
		return fmt.Errorf("%s: %w to revision %d while %d was read", d.Name(), errMoved, revision, present)
	}
	return nil
}

// errMoved is for what has changed while it was read. It can be read again at once.
var errMoved = errors.New("the rules have changed")

func itemOf(o *control.Object) *control.Item {
	return &control.Item{Kind: o.Kind, ID: o.ID, Revision: o.Revision, Body: json.RawMessage(o.Body), Deleted: o.Body == nil}
}

func (d *databaseSource) Beat(ctx context.Context, n control.Node) (int64, time.Duration, error) {
	if d.nodes == nil {
		return 0, 0, nil
	}
	latest, err := d.nodes.Beat(ctx, n)
	return latest, 0, err
}

func (d *databaseSource) Leave(ctx context.Context, n control.Node) error {
	if d.nodes == nil {
		return nil
	}
	return d.nodes.Leave(ctx, n)
}
