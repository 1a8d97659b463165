package follow_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/control/follow"
)

// A replaceable source is one whose database is replaced, as by an operator who restores a backup.
type replaceable struct {
	db     atomic.Pointer[control.DB]
	breaks chan struct{} // breaks the stream, like a restart of the service
}

func newReplaceable(db control.DB) *replaceable {
	r := &replaceable{breaks: make(chan struct{})}
	r.db.Store(&db)
	return r
}

func (r *replaceable) source() follow.Source { return follow.Database(*r.db.Load(), namespace, nil) }

func (r *replaceable) Name() string      { return "the one database" }
func (r *replaceable) Namespace() string { return namespace }

func (r *replaceable) Fetch(ctx context.Context, since control.Mark, to follow.Sink) error {
	return r.source().Fetch(ctx, since, to)
}

func (r *replaceable) Watch(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		for {
			_, revision, err := (*r.db.Load()).Revision(ctx, namespace)
			if !yield(revision, err) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-r.breaks:
			}
			if !yield(0, errors.New("the stream broke")) {
				return
			}
		}
	}
}

func (r *replaceable) Heartbeat(context.Context, control.Node) (int64, time.Duration, error) {
	return 0, 0, nil
}

func (r *replaceable) Leave(context.Context, control.Node) error { return nil }

// limited commits a limit per second for all users, and ten times as much for acme.
func limited(t *testing.T, db control.DB, count int) {
	t.Helper()
	commit(t, db, rule("per-user", fmt.Sprintf(`{"id":"per-user","key":["user"],"limits":["%d/s"]}`, count)),
		client("acme", fmt.Sprintf(`{"id":"acme","limits":["%d0/s"]}`, count)))
}

// A restored database continues from an earlier revision, so the same numbers stand for other changes. A
// node then fetches everything, unless its own revision is still in the database's history.
func TestNodeDetectsARestoredDatabase(t *testing.T) {
	t.Parallel()
	first := openDB(t)
	limited(t, first, 1)
	var backup bytes.Buffer
	if err := first.Dump(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	restored := func(t *testing.T, changes []int) control.DB {
		db := openDB(t)
		if err := db.Restore(t.Context(), bytes.NewReader(backup.Bytes()), control.Absent); err != nil {
			t.Fatal(err)
		}
		for _, count := range changes {
			limited(t, db, count)
		}
		return db
	}
	for name, tt := range map[string]struct {
		before, after []int // changes after the backup, in the old and in the restored database
		whole, deltas int64 // snapshots and changes that the node fetches
		want          int64
	}{
		"the same number":        {[]int{2}, []int{3}, 2, 0, 3},
		"a higher number":        {[]int{2}, []int{3, 4}, 2, 0, 4},
		"a lower number":         {[]int{2, 3}, []int{4}, 2, 0, 4},
		"the backup alone":       {[]int{2}, nil, 2, 0, 1},
		"the past of the backup": {nil, []int{2}, 1, 1, 2},
		"nothing new":            {nil, nil, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newReplaceable(restored(t, tt.before))
			n := open(t, follow.Config{Source: source, Poll: time.Hour})
			n.run(t)
			until(t, "the stream is there", func() bool { return n.Status().Push })
			after := restored(t, tt.after)
			source.db.Store(&after)
			asked := func() int64 { s := n.Status(); return s.Snapshots + s.Deltas + s.Unchanged }
			before := asked()
			source.breaks <- struct{}{} // the only sign for the node
			until(t, "it has asked", func() bool { return asked() > before })
			s := n.Status()
			if user, acme := n.limit("bob"), n.limit("acme"); user != tt.want || acme != 10*tt.want || s.Snapshots != tt.whole || s.Deltas != tt.deltas {
				t.Errorf("got %d/s and %d/s for acme, having taken %d wholes and %d changes; want %d/s and %d/s with %d and %d",
					user, acme, s.Snapshots, s.Deltas, tt.want, 10*tt.want, tt.whole, tt.deltas)
			}
		})
	}
}

// A database that had rules and is at revision 0 now has lost them: a node keeps its rules.
func TestNodeKeepsRulesTheDatabaseLost(t *testing.T) {
	t.Parallel()
	first := openDB(t)
	limited(t, first, 3)
	source := newReplaceable(first)
	dir := t.TempDir()
	config := follow.Config{Source: source, Dir: dir, Poll: time.Hour}
	n := open(t, config)
	stop := n.run(t)
	until(t, "the stream is there", func() bool { return n.Status().Push })
	kept, err := os.ReadFile(fileOf(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string, n *node) {
		t.Helper()
		s := n.Status()
		if user, acme := n.limit("bob"), n.limit("acme"); user != 3 || acme != 30 || s.Revision != 1 || !strings.Contains(s.UnreachableReason, "lost its rules") {
			t.Errorf("%s: got %d/s and %d/s for acme, %+v; want 3/s and 30/s, and that the rules service has lost its rules", when, user, acme, s)
		}
		if now, err := os.ReadFile(fileOf(t, dir)); err != nil || !bytes.Equal(now, kept) {
			t.Errorf("%s: the file is\n%s\n%v, want\n%s", when, now, err, kept)
		}
	}
	empty := openDB(t)
	source.db.Store(&empty)
	source.breaks <- struct{}{}
	until(t, "it has asked", func() bool { return n.Status().Failures > 0 })
	check("when it was lost", n)
	stop()
	n = open(t, config)
	check("after a restart", n)
	n.run(t)
	limited(t, empty, 4)
	n.Refresh()
	until(t, "the rules that were made instead", func() bool { return n.limit("bob") == 4 && n.Status().UnreachableReason == "" })

	// Deleting all rules is intended.
	revision := commit(t, empty, gone(control.KindRule, "per-user"), gone(control.KindClient, "acme"))
	n.Refresh()
	until(t, "nothing is left", func() bool { return n.Status().Revision == revision && n.limit("bob") == 0 })
}

// Rules on disk belong to one source: another source may have none.
func TestRulesOfAnotherSourceAreReplaced(t *testing.T) {
	t.Parallel()
	first := openDB(t)
	limited(t, first, 3)
	dir := t.TempDir()
	n := open(t, follow.Config{Source: follow.Database(first, namespace, nil), Dir: dir})
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = open(t, follow.Config{Source: follow.Database(openDB(t), namespace, nil), Dir: dir})
	defer func() { _ = n.Close() }()
	if s := n.Status(); s.UnreachableReason != "" || s.Rules != 0 || n.limit("bob") != 0 {
		t.Errorf("got %d/s, %+v; want no rules", n.limit("bob"), s)
	}
}

// The lag is the time that a change took, not the age of the rules.
func TestLagIsNotTheAgeOfARevision(t *testing.T) {
	t.Parallel()
	older, first := openDB(t), openDB(t)
	limited(t, older, 1)
	limited(t, first, 2)
	var ahead atomic.Int64 // of the clock
	replaceable := newReplaceable(first)
	source := &flaky{Source: replaceable}
	n := open(t, follow.Config{Source: source, Poll: time.Hour, Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	if s := n.Status(); s.Lag != 0 || s.Snapshots != 1 {
		t.Errorf("what was there before the node: got a lag of %s, %d wholes; want 0 and 1", s.Lag, s.Snapshots)
	}
	n.run(t)
	until(t, "the stream is there", func() bool { return n.Status().Push })
	source.away.Store(true)
	limited(t, first, 3)
	n.Refresh()
	until(t, "it could not ask", func() bool { return n.Status().UnreachableReason != "" })
	ahead.Store(int64(time.Hour))
	source.away.Store(false)
	n.Refresh()
	until(t, "it has the change", func() bool { return n.limit("bob") == 3 })
	if got := n.Status().Lag; got < time.Hour || got > 2*time.Hour {
		t.Errorf("a change that could not be asked for in an hour: got a lag of %s", got)
	}
	ahead.Store(int64(3 * time.Hour))
	replaceable.db.Store(&older)
	n.Refresh()
	until(t, "it has what was restored", func() bool { return n.limit("bob") == 1 })
	if got := n.Status().Lag; got != 0 {
		t.Errorf("a database of before the node was started: got a lag of %s, want 0", got)
	}
}
