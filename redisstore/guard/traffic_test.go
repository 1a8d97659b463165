package guard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
)

// A trafficFake is a store that implements Traffic. It responds after a while whatever its context says.
type trafficFake struct {
	*fakeStore
	mu       sync.Mutex
	sent     time.Time
	received time.Time
	unread   bool
	answer   time.Duration
}

func (w *trafficFake) set(sent time.Time, unread bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent, w.unread = sent, unread
}

func (w *trafficFake) LastSent(string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

func (w *trafficFake) LastReceived(string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.received
}

func (w *trafficFake) receive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.received = time.Now()
}

func (w *trafficFake) HasUnread(string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unread
}

func (w *trafficFake) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	w.mu.Lock()
	answer := w.answer
	w.mu.Unlock()
	select {
	case <-time.After(answer):
		return w.fakeStore.Take(context.WithoutCancel(ctx), c)
	case <-ctx.Done():
		return headgate.Decision{}, ctx.Err()
	}
}

func TestDeadlineIsThatOfTheStoreAlone(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name           string
		sentAfter      time.Duration // below zero: never
		unreadFrom     time.Duration // below zero: never
		heardAt        time.Duration // zero: never
		hearsOn        bool          // and every millisecond from then on
		answer         time.Duration
		want           time.Duration
		failed, starve bool
	}{
		{name: "store is silent", unreadFrom: -1, answer: time.Hour, want: 20 * ms, failed: true},
		{name: "sent late and answered", sentAfter: 50 * ms, unreadFrom: -1, answer: 60 * ms, want: 60 * ms},
		{name: "sent late and silent", sentAfter: 50 * ms, unreadFrom: -1, answer: time.Hour, want: 70 * ms, failed: true},
		{name: "answer waits to be read", unreadFrom: 15 * ms, answer: 90 * ms, want: 90 * ms},
		{name: "answer is never read", unreadFrom: 15 * ms, answer: time.Hour, want: 200 * ms, starve: true},
		{name: "answer was read and is not delivered yet", unreadFrom: -1, heardAt: 19 * ms, answer: 30 * ms, want: 30 * ms},
		{
			name: "silent after others were answered", unreadFrom: -1, heardAt: 5 * ms,
			answer: time.Hour, want: 25 * ms, failed: true,
		},
		{
			name: "slow while others are answered", unreadFrom: -1, heardAt: ms, hearsOn: true,
			answer: 100 * ms, want: 39 * ms, failed: true,
		},
		{name: "never sent", sentAfter: -1, unreadFrom: -1, answer: time.Hour, want: 200 * ms, starve: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := &trafficFake{fakeStore: newFake(t, nil), answer: tt.answer, sent: time.Now().Add(-time.Second)}
				g := newGuard(t, w, Options{})
				start := time.Now()
				if tt.sentAfter >= 0 {
					time.AfterFunc(tt.sentAfter, func() { w.set(time.Now(), false) })
				}
				if tt.unreadFrom >= 0 {
					time.AfterFunc(tt.unreadFrom, func() { w.set(start, true) })
				}
				if tt.heardAt > 0 {
					var hear func()
					hear = func() {
						w.receive()
						if tt.hearsOn && time.Since(start) < tt.answer {
							time.AfterFunc(ms, hear)
						}
					}
					time.AfterFunc(tt.heardAt, hear)
				}
				d, err := g.Take(context.Background(), check("/1", "10/s"))
				if got := time.Since(start); got < tt.want || got > tt.want+2*time.Millisecond {
					t.Errorf("took %v, want %v", got, tt.want)
				}
				if errors.Is(err, headgate.ErrOverloaded) != tt.starve || d.Degraded != tt.failed {
					t.Errorf("got %+v and %v", d, err)
				}
				if got := g.shards.only.circuit.failuresInRow.Load() > 0; got != tt.failed {
					t.Errorf("blamed: %v, want %v", got, tt.failed)
				}
			})
		})
	}
}
