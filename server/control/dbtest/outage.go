package dbtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/server/control"
)

// An Outage is a server that can be killed and restarted with its data.
type Outage struct {
	Kill, Restart func()
	// Open opens a handle, which is closed when the test ends.
	Open func() control.DB
}

// CheckKills kills a server during writes, several times, and checks the data after each restart.
func (o *Outage) CheckKills(t *testing.T, times int) {
	var audit Audit
	db := o.Open()
	last := int64(0)
	for i := range times {
		var mu sync.Mutex
		started := make(chan struct{})
		first := started
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
			defer cancel()
			err := Write(ctx, db, func(revision int64) {
				mu.Lock()
				defer mu.Unlock()
				if last = revision; first != nil {
					close(first)
					first = nil
				}
			})
			if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, control.ErrConflict) {
				t.Errorf("the writer stopped with %v", err)
			}
		})
		select {
		case <-started:
		case <-time.After(waitTimeout):
			t.Fatalf("nothing was written in %v", waitTimeout)
		}
		time.Sleep(time.Duration(i) * 7 * time.Millisecond) // kill the server at a different point of a commit each time
		o.Kill()
		wg.Wait()
		o.Restart()
		until := time.Now().Add(waitTimeout)
		for {
			if _, _, err := db.Revision(t.Context(), ""); err == nil {
				break
			} else if time.Now().After(until) {
				t.Fatalf("%v after the restart of the server: %v", waitTimeout, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		unacknowledged := int64(audit.Check(t, db, last))
		last += unacknowledged
		t.Logf("kill %d: revision %d, %d changes not acknowledged", i, last, unacknowledged)
	}
}

// CheckWatches checks that a watch yields new revisions after an outage.
func (o *Outage) CheckWatches(t *testing.T) {
	writer := o.Open()
	commit(t, writer, "n", rule("a", control.AnyRevision, `1`))
	seen := watch(t.Context(), o.Open())
	awaitRevision(t, seen, 1)
	o.Kill()
	o.Restart()
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(20 * time.Millisecond) {
		c := control.Change{Namespace: "n", Base: control.AnyRevision, Ops: []control.Op{rule("a", control.AnyRevision, `3`)}}
		if err := writer.Commit(t.Context(), &c); err == nil {
			awaitRevision(t, seen, c.Revision)
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("%v after the server was started again: %v", waitTimeout, err)
		}
	}
}
