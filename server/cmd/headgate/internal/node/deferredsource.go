package node

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

// A deferredSource is a database that may be unreachable when the node starts. Until it is open, the rules on disk
// apply.
type deferredSource struct {
	name, namespace string
	ready           chan struct{}

	mu     sync.Mutex
	source follow.Source // nil until the database is open
	err    error         // why the database is not open
}

var _ follow.Source = (*deferredSource)(nil)

func newDeferredSource(database, namespace string) *deferredSource {
	name := "a database"
	if u, err := url.Parse(database); err == nil {
		u.User, u.RawQuery = nil, ""
		name = u.String()
	}
	return &deferredSource{name: name, namespace: namespace, ready: make(chan struct{})}
}

// Name returns the URL of the database without its user and password.
func (d *deferredSource) Name() string { return d.name }

// Namespace returns the namespace whose rules are followed.
func (d *deferredSource) Namespace() string { return d.namespace }

// open sets the source, once the database is open.
func (d *deferredSource) open(source follow.Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.source, d.err = source, nil
	close(d.ready)
}

func (d *deferredSource) failed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// lastErr returns why the database could not be opened, or nil if it is open.
func (d *deferredSource) lastErr() error {
	_, err := d.get()
	return err
}

func (d *deferredSource) get() (follow.Source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.source, d.err
}

// Watch waits until the database is open, then watches it.
func (d *deferredSource) Watch(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		select {
		case <-ctx.Done():
			return
		case <-d.ready:
		}
		source, _ := d.get()
		source.Watch(ctx)(yield)
	}
}

// Fetch implements follow.Source.
func (d *deferredSource) Fetch(ctx context.Context, since control.Mark, to follow.Sink) error {
	source, err := d.get()
	if source == nil {
		return err
	}
	return source.Fetch(ctx, since, to)
}

// Heartbeat implements follow.Source.
func (d *deferredSource) Heartbeat(ctx context.Context, n control.Node) (int64, time.Duration, error) {
	source, err := d.get()
	if source == nil {
		return 0, 0, err
	}
	return source.Heartbeat(ctx, n)
}

// Leave implements follow.Source.
func (d *deferredSource) Leave(ctx context.Context, n control.Node) error {
	source, err := d.get()
	if source == nil {
		return err
	}
	return source.Leave(ctx, n)
}

// openDeferred opens the database and its API. It returns false if that fails.
func (n *Node) openDeferred(ctx context.Context) bool {
	s := n.control
	if err := n.openDatabase(ctx); err != nil {
		s.deferred.failed(err)
		return false
	}
	s.deferred.open(follow.Database(s.db, s.deferred.namespace, s.api.Load()))
	return true
}

// retryDatabase tries to open the database until it succeeds. It returns false if ctx ends before.
func (n *Node) retryDatabase(ctx context.Context) bool {
	const maxPause = 15 * time.Second
	for pause := time.Second; n.control.deferred.lastErr() != nil; pause = min(2*pause, maxPause) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if !n.openDeferred(ctx) {
			if err := n.control.deferred.lastErr(); errors.Is(err, control.ErrNewer) {
				n.log.Error("database not opened", "err", err.Error())
			}
			continue
		}
		n.log.Info("database opened", "db", n.control.db.Name())
		n.printFirstToken()
		n.followed.follower.Refresh()
	}
	return true
}
