package admission

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// A queue that admits no more, with a request that waits.
func crowdedQueue(t *testing.T, failing func() bool) *Queue {
	t.Helper()
	q := NewQueue(clock.System, failing)
	for q.Enter() {
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		q.Wait(context.Background(), time.Hour)
	}()
	t.Cleanup(func() {
		q.Dismiss(Unavailable)
		<-left
	})
	for q.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	return q
}

func TestLimitFollowsTheStoresOwnTime(t *testing.T) {
	const deadline = 20 * time.Millisecond
	for _, test := range []struct {
		name           string
		quickest, took time.Duration
		min, max       int64
	}{
		{"near store, busy cores", 60 * time.Microsecond, time.Millisecond, MinActive, MinActive + 1},
		{"near store, idle cores", 60 * time.Microsecond, 100 * time.Microsecond, 500, maxActive},
		{"distant store", 5 * time.Millisecond, 6 * time.Millisecond, 500, maxActive},
		{"store has become slow", 60 * time.Microsecond, 12 * time.Millisecond, maxMinimum, maxMinimum},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := crowdedQueue(t, func() bool { return false })
			q.Adjust(test.quickest, deadline)
			for range 1000 {
				q.Adjust(test.took, deadline)
			}
			if got := q.limit.Load(); got < test.min || got > test.max {
				t.Errorf("limit %d, want %d to %d", got, test.min, test.max)
			}
		})
	}
}

func TestQueuedRequestsDoNotFollowFailedCalls(t *testing.T) {
	q := crowdedQueue(t, func() bool { return true })
	for range MinActive - 1 {
		q.Leave()
		if got := q.Waiting(); got != 1 {
			t.Fatalf("got %d waiting, want 1 while calls are active", got)
		}
	}
	q.Leave()
	if got := q.Waiting(); got != 0 {
		t.Errorf("got %d waiting, want 0 when no call is active", got)
	}
}
