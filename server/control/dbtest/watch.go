package dbtest

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
)

// watch returns the revisions that a database yields, until ctx ends.
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

// awaitRevision waits for a revision.
func awaitRevision(t testing.TB, seen <-chan int64, want int64) {
	t.Helper()
	deadline := time.After(patience)
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
			t.Fatalf("no word of revision %d after %v", want, patience)
		}
	}
}

func watchAcrossHandles(t *testing.T, fresh New) {
	open := fresh(t)
	writer, own, other := open(), open(), open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	commit(t, writer, "n", rule("a", control.Absent, `1`))
	mine, theirs, writers := watch(ctx, own), watch(ctx, other), watch(ctx, writer)
	for _, seen := range []<-chan int64{mine, theirs, writers} {
		awaitRevision(t, seen, 1) // the current one first
	}
	for i := range 5 {
		c := commit(t, writer, "n", put(control.KindRule, "a", `2`))
		started := time.Now()
		for _, seen := range []<-chan int64{mine, theirs, writers} {
			awaitRevision(t, seen, c.Revision)
		}
		t.Logf("change %d: all knew after %v", i, time.Since(started))
	}
	// Of many revisions it may skip some, but not the last.
	var last *control.Change
	for range 20 {
		last = commit(t, own, "m", put(control.KindToken, "t", `2`))
	}
	for _, seen := range []<-chan int64{mine, theirs, writers} {
		awaitRevision(t, seen, last.Revision)
	}
}

func watchEnds(t *testing.T, fresh New) {
	open := fresh(t)
	db := open()
	ended := func(what string, seen <-chan int64) {
		t.Helper()
		deadline := time.After(patience)
		for {
			select {
			case _, ok := <-seen:
				if !ok {
					return
				}
			case <-deadline:
				t.Fatalf("%s: the watch goes on", what)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen := watch(ctx, db)
	awaitRevision(t, seen, 0)
	cancel()
	ended("its context is done", seen)
	seen = watch(t.Context(), db)
	awaitRevision(t, seen, 0)
	for range db.Watch(t.Context()) {
		break // a watcher that has seen enough
	}
	for range 2 { // closing again does nothing
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ended("the database is closed", seen)
	ended("it was closed before", watch(t.Context(), db))
}
