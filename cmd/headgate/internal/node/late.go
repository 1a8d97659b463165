package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"sync"
	"time"

	"github.com/headgate/headgate/control"
	"github.com/headgate/headgate/control/follow"
)

// A late source is a database that may be away when the node starts. Until it is there, the rules are those on disk.
type late struct {
	name, namespace string
	opened          chan struct{}

	mu     sync.Mutex
	source follow.Source // nil until it is there
	why    error         // why it is not
}

var _ follow.Source = (*late)(nil)

func newLate(database, namespace string) *late {
	name := "a database"
	if u, err := url.Parse(database); err == nil {
		u.User, u.RawQuery = nil, ""
		name = u.String()
	}
	return &late{name: name, namespace: namespace, opened: make(chan struct{})}
}

// Name says which database it is, whether it is there or not.
func (l *late) Name() string { return l.name }

// Namespace is whose rules they are.
func (l *late) Namespace() string { return l.namespace }

// open says that the database is there.
func (l *late) open(source follow.Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.source, l.why = source, nil
	close(l.opened)
}

func (l *late) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = err
}

// err says why the database is not there, nil if it is.
func (l *late) err() error {
	_, err := l.get()
	return err
}

func (l *late) get() (follow.Source, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.source, l.why
}

// Watch begins when the database is there.
func (l *late) Watch(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		select {
		case <-ctx.Done():
			return
		case <-l.opened:
		}
		source, _ := l.get()
		source.Watch(ctx)(yield)
	}
}

// Fetch asks the database, if it is there.
func (l *late) Fetch(ctx context.Context, since control.Mark, to follow.Sink) error {
	source, err := l.get()
	if source == nil {
		return err
	}
	return source.Fetch(ctx, since, to)
}

// Heartbeat tells the database, if it is there.
func (l *late) Heartbeat(ctx context.Context, n control.Node) (int64, time.Duration, error) {
	source, err := l.get()
	if source == nil {
		return 0, 0, err
	}
	return source.Heartbeat(ctx, n)
}

// Leave tells the database, if it is there.
func (l *late) Leave(ctx context.Context, n control.Node) error {
	source, err := l.get()
	if source == nil {
		return err
	}
	return source.Leave(ctx, n)
}

// openLate opens the database and its API, and is false if that is not possible now.
func (n *Node) openLate(ctx context.Context) bool {
	s := n.control
	if err := n.openDatabase(ctx); err != nil {
		s.late.failed(err)
		return false
	}
	s.late.open(follow.Database(s.db, s.late.namespace, s.api.Load()))
	return true
}

// reopen tries to open the database until it is there. It is false if ctx ended before.
func (n *Node) reopen(ctx context.Context) bool {
	const most = 15 * time.Second
	for pause := time.Second; n.control.late.err() != nil; pause = min(2*pause, most) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if !n.openLate(ctx) {
			if err := n.control.late.err(); errors.Is(err, control.ErrNewer) {
				n.log.Error(fmt.Sprint("the database is not opened: ", err))
			}
			continue
		}
		n.log.Info("the database is there", "db", n.control.db.Name())
		n.showToken()
		n.followed.follower.Poke()
	}
	return true
}
