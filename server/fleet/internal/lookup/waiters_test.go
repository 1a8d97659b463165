package lookup_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/server/fleet/internal/lookup"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

func TestADecisionWaitsUntilItsLookupEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := 0
		w := lookup.Waiters{StartExchange: func() { started++ }}
		wait, c := lookup.New(&tally.Key{1}), clock.NewStopwatch(clock.System)
		time.AfterFunc(lookup.MaxWait/2, wait.End)
		if err := w.Await(t.Context(), c, []*lookup.Lookup{wait}); err != nil {
			t.Fatal(err)
		}
		if took := c.Elapsed(); took != lookup.MaxWait/2 || started != 1 || w.Waits() != 1 || w.Dropped() != 0 {
			t.Errorf("got %v with %d exchanges, %d waits and %d dropped, want %v with 1, 1 and 0", took, started, w.Waits(),
				w.Dropped(), lookup.MaxWait/2)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Await(ctx, c, []*lookup.Lookup{lookup.New(&tally.Key{1})}); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait with a context that has ended: got %v, want %v", err, context.Canceled)
		}
	})
}

func TestNoDecisionWaitsForAGroupThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lookup.Waiters{StartExchange: func() {}}
		slow, other, c := tally.Key{1}, tally.Key{2}, clock.NewStopwatch(clock.System)
		if err := w.Await(t.Context(), c, []*lookup.Lookup{lookup.New(&slow)}); err != nil {
			t.Fatal(err)
		}
		if took := c.Elapsed(); took != lookup.MaxWait {
			t.Errorf("a lookup without a response: got %v, want %v", took, lookup.MaxWait)
		}
		if w.Admit(&slow) || !w.Admit(&other) {
			t.Error("after a slow lookup: want decisions on its group alone not to wait")
		}
		w.GroupsDone(1<<tally.GroupOf(&slow), 0)
		if !w.Admit(&slow) {
			t.Error("after an exchange of the group: want decisions to wait again")
		}
		if got := w.Dropped(); got != 2 { // the slow one, and one that did not wait
			t.Errorf("dropped: got %d, want 2", got)
		}
	})
}
