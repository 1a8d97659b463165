package dbtest

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
)

// watch returns a channel with the revisions that a database yields until ctx ends.
func watch(ctx context.Context, db control.DB) <-chan int64 {
	seen := make(chan int64)
	go func() {
		defer close(seen)
		for revision := range db.Watch(ctx) {
			select {
			case seen <- revision:
			case <-ctx.Done():
				return
			}
		}
	}()
	return seen
}

// awaitRevision waits until a revision is received. Earlier revisions are ignored.
func awaitRevision(t testing.TB, seen <-chan int64, want int64) {
	t.Helper()
	deadline := time.After(waitTimeout)
	for {
		select {
		case got, ok := <-seen:
			if !ok {
				t.Fatalf("the watch has ended before revision %d", want)
			}
			if got == want {
				return
			}
			if got > want {
				t.Fatalf("got revision %d, want %d", got, want)
			}
		case <-deadline:
			t.Fatalf("revision %d was not received after %v", want, waitTimeout)
		}
	}
}

func watchAcrossHandles(t *testing.T, newDB New) {
	open := newDB(t)
	writer, second, third := open(), open(), open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	commit(t, writer, "n", rule("a", control.Absent, `1`))
	watches := []<-chan int64{watch(ctx, second), watch(ctx, third), watch(ctx, writer)}
	for _, seen := range watches {
		awaitRevision(t, seen, 1) // the current revision comes first
	}
	for i := range 5 {
		c := commit(t, writer, "n", put(control.KindRule, "a", `2`))
		started := time.Now()
		for _, seen := range watches {
			awaitRevision(t, seen, c.Revision)
		}
		t.Logf("change %d: received by all watches after %v", i, time.Since(started))
	}
	// A watch may skip some of many revisions, but not the last.
	var last *control.Change
	for range 20 {
		last = commit(t, second, "m", put(control.KindToken, "t", `2`))
	}
	for _, seen := range watches {
		awaitRevision(t, seen, last.Revision)
	}
}

func watchEnds(t *testing.T, newDB New) {
	open := newDB(t)
	db := open()
	checkEnds := func(name string, seen <-chan int64) {
		t.Helper()
		deadline := time.After(waitTimeout)
		for {
			select {
			case _, ok := <-seen:
				if !ok {
					return
				}
			case <-deadline:
				t.Fatalf("%s: the watch has not ended", name)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen := watch(ctx, db)
	awaitRevision(t, seen, 0)
	cancel()
	checkEnds("its context has ended", seen)
	seen = watch(t.Context(), db)
	awaitRevision(t, seen, 0)
	for range db.Watch(t.Context()) {
		break // a watcher may stop
	}
	for range 2 { // closing again does nothing
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	checkEnds("the database was closed", seen)
	checkEnds("the database was closed before Watch", watch(t.Context(), db))
}
