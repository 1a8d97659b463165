package notify

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A number is a watched value, and the values that a watch has yielded.
type number struct {
	mu    sync.Mutex
	value int64
	err   error
	asked int
	seen  []int64
}

func (n *number) ask(context.Context) (int64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	return n.value, n.err
}

// set sets the value.
func (n *number) set(value int64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.value, n.err = value, err
}

// expect checks the yielded values once all goroutines wait.
func (n *number) expect(t *testing.T, what string, want ...int64) {
	t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.seen, want) {
		t.Errorf("%s: got %v, want %v", what, n.seen, want)
	}
}

// watch starts a watch of it.
func watch(ctx context.Context, p *Notifier, n *number) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for v := range p.Watch(ctx, Timing{Poll: 10 * time.Second, Timeout: time.Second}, n.ask) {
			n.mu.Lock()
			n.seen = append(n.seen, v)
			n.mu.Unlock()
		}
	}()
	return ended
}

func TestWatchSeesNotificationsAndPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Notifier
		n := &number{value: 7}
		ctx, cancel := context.WithCancel(t.Context())
		done := watch(ctx, &p, n)
		n.expect(t, "at first", 7)
		n.set(8, nil)
		n.expect(t, "without a notification", 7)
		p.Notify()
		n.expect(t, "with one", 7, 8)
		p.Notify()
		n.expect(t, "a notification without a change", 7, 8)
		n.set(5, nil)
		time.Sleep(12 * time.Second)
		n.expect(t, "looking, and what went back", 7, 8, 5)
		n.set(9, errors.New("away"))
		p.Notify()
		n.expect(t, "while it is away", 7, 8, 5)
		n.set(9, nil)
		time.Sleep(12 * time.Second)
		n.expect(t, "when it is back", 7, 8, 5, 9)
		cancel()
		<-done
		if n.asked > 10 {
			t.Errorf("asked %d times in 24 s, want about 7: one that is away is not pestered", n.asked)
		}
	})
}

func TestWatchesEndWithTheNotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Notifier
		first, second := watch(t.Context(), &p, &number{}), watch(t.Context(), &p, &number{})
		synctest.Wait()
		p.Close()
		<-first
		<-second
		p.Notify()
		p.Close()
		late := &number{}
		<-watch(t.Context(), &p, late)
		late.expect(t, "of one that was closed before")
	})
}
