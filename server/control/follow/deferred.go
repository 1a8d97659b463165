package follow

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"sync"
	"time"

	"github.com/headgate/headgate/server/control"
)

// A Deferred is the Source of a database that may be unreachable when the node starts. Until the database is open, all
// fetches fail, so the node uses the rules on its disk. A Deferred is safe for concurrent use.
type Deferred struct {
	name, namespace string
	ready           chan struct{}

	mu     sync.Mutex
	source Source // nil until the database is open
	err    error  // why the database is not open; nil if it is
}

var _ Source = (*Deferred)(nil)

var errNotOpened = errors.New("the database was not opened yet")

// NewDeferred returns a Deferred for the URL of a database.
func NewDeferred(database, namespace string) *Deferred {
	name := "a database"
	if u, err := url.Parse(database); err == nil {
		u.User, u.RawQuery = nil, ""
		name = u.String()
	}
	return &Deferred{name: name, namespace: namespace, ready: make(chan struct{}), err: errNotOpened}
}

// Name returns the URL of the database without its user and password.
func (d *Deferred) Name() string { return d.name }

// Namespace returns the namespace whose rules are followed.
func (d *Deferred) Namespace() string { return d.namespace }

// Opened sets the source after the database was opened. It must be called at most once.
func (d *Deferred) Opened(source Source) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.source, d.err = source, nil
	close(d.ready)
}

// Failed records why an attempt to open the database failed. It must not be called after Opened.
func (d *Deferred) Failed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// Err returns why the database is not open, or nil if it is open. Before the first call of Failed or Opened, the error
// says that the database was not opened yet.
func (d *Deferred) Err() error {
	_, err := d.get()
	return err
}

func (d *Deferred) get() (Source, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.source, d.err
}

// Watch waits until the database is open, then watches it.
func (d *Deferred) Watch(ctx context.Context) iter.Seq2[int64, error] {
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

// Fetch implements Source. It returns the error of Err until the database is open.
func (d *Deferred) Fetch(ctx context.Context, since control.Mark, sink Sink) error {
	source, err := d.get()
	if source == nil {
		return err
	}
	return source.Fetch(ctx, since, sink)
}

// Heartbeat implements Source. It returns the error of Err until the database is open.
func (d *Deferred) Heartbeat(
	ctx context.Context, n control.Node,
) (latest int64, next time.Duration, err error) {
	source, err := d.get()
	if source == nil {
		return 0, 0, err
	}
	return source.Heartbeat(ctx, n)
}

// Leave implements Source. It returns the error of Err until the database is open.
func (d *Deferred) Leave(ctx context.Context, n control.Node) error {
	source, err := d.get()
	if source == nil {
		return err
	}
	return source.Leave(ctx, n)
}
