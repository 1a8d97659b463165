package follow_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
	"github.com/headgate/headgate/server/control/sqlite"
)

const namespace = "default"

// patience bounds waits, on a machine that is busy with other work.
const patience = 60 * time.Second

// soak skips a long test unless HEADGATE_SOAK is set.
func soak(t *testing.T) {
	t.Helper()
	if os.Getenv("HEADGATE_SOAK") == "" {
		t.Skip("set HEADGATE_SOAK to run it")
	}
}

// round rounds a duration for the log.
func round(d time.Duration) time.Duration {
	digit := time.Duration(1)
	for d/digit >= 1000 {
		digit *= 10
	}
	return d.Round(digit)
}

// openDB opens a new database.
func openDB(t testing.TB) control.DB {
	t.Helper()
	db, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "rules.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func rule(id, body string) control.Op {
	return control.Op{Kind: control.KindRule, ID: id, Base: control.AnyRevision, Body: []byte(body)}
}

func client(id, body string) control.Op {
	return control.Op{Kind: control.KindClient, ID: id, Base: control.AnyRevision, Body: []byte(body)}
}

func gone(kind control.Kind, id string) control.Op {
	return control.Op{Kind: kind, ID: id, Base: control.AnyRevision}
}

func override(o control.Override) control.Op {
	return control.Op{Kind: control.KindOverride, ID: o.ID, Base: control.AnyRevision, Body: control.OverrideBody(o)}
}

// commit makes a change and returns its revision.
func commit(t testing.TB, db control.DB, ops ...control.Op) int64 {
	t.Helper()
	c := control.Change{Namespace: namespace, Actor: "test", Base: control.AnyRevision, Ops: ops}
	if err := db.Commit(context.Background(), &c); err != nil {
		t.Fatal(err)
	}
	return c.Revision
}

// perUser is a rule that counts users.
const perUser = `{"id":"per-user","key":["user"],"limits":["10/s"]}`

// A node is a Follower and the rules that it has applied.
type node struct {
	*follow.Follower
	set     atomic.Pointer[match.Set]
	applied atomic.Int64
}

func (n *node) apply(set *match.Set) error {
	n.set.Store(set)
	n.applied.Add(1)
	return nil
}

// open opens a node, which does not run yet.
func open(t testing.TB, c follow.Config) *node {
	t.Helper()
	n := &node{}
	if c.Apply == nil {
		c.Apply = n.apply
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if n.Follower, err = follow.Open(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	return n
}

// run runs it until the test ends, or stop is called.
func (n *node) run(t testing.TB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		n.Run(ctx)
		close(done)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// limit returns the limit of a user under the rule per-user: the count of the first one, -1 if blocked, -2 if unlimited,
// 0 if there is no rule.
func (n *node) limit(user string) int64 {
	set := n.set.Load()
	if set == nil {
		return 0
	}
	matched := set.Match(rules.Attributes{{Kind: headgate.AttrUser}: user}, nil)
	for i := range matched {
		if m := &matched[i]; m.Rule.ID == "per-user" {
			switch {
			case m.Effect.Denies():
				return -1
			case m.Effect == match.Unlimited:
				return -2
			case len(m.Limits) > 0:
				return m.Limits[0].Count
			}
		}
	}
	return 0
}

// until waits until a condition holds.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s it is still not so: %s", patience, what)
		}
	}
}

// A flaky source fails while a test wants it to.
type flaky struct {
	follow.Source
	away  atomic.Bool // for fetches
	mute  atomic.Bool // for the push
	beats chan control.Node
	asked atomic.Int64
}

var errAway = errors.New("away for the test")

func (f *flaky) Watch(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		for revision, err := range f.Source.Watch(ctx) {
			if !f.mute.Load() && !yield(revision, err) {
				return
			}
		}
	}
}

func (f *flaky) Fetch(ctx context.Context, since control.Mark, to follow.Sink) error {
	f.asked.Add(1)
	if f.away.Load() {
		return errAway
	}
	return f.Source.Fetch(ctx, since, to)
}

func (f *flaky) Heartbeat(_ context.Context, n control.Node) (int64, time.Duration, error) {
	if f.beats != nil {
		select {
		case f.beats <- n:
		default:
		}
	}
	return 0, 0, nil
}
