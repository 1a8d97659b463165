package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// rounds do something again and again, one round at a time, until they are stopped.
type rounds struct {
	clock Clock
	life  context.Context // ends with the rounds
	end   context.CancelFunc
	busy  sync.WaitGroup

	mu      sync.Mutex
	timer   Timer
	closing bool
}

// begin has do called after each pause, which is from the beginning of one round to that of the next.
func (r *rounds) begin(clock Clock, pause func() time.Duration, do func(context.Context)) {
	r.clock = clock
	r.life, r.end = context.WithCancel(context.Background())
	r.schedule(pause(), pause, do)
}

func (r *rounds) schedule(after time.Duration, pause func() time.Duration, do func(context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return
	}
	r.busy.Add(1)
	r.timer = r.clock.AfterFunc(after, func() {
		defer r.busy.Done()
		began := r.clock.Now()
		do(r.life)
		r.schedule(max(0, pause()-(r.clock.Now()-began)), pause, do)
	})
}

// stop ends the rounds and waits for the one under way, which is cut short when ctx ends.
func (r *rounds) stop(ctx context.Context) error {
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return headgate.ErrClosed
	}
	r.closing = true
	if r.timer.Stop() {
		r.busy.Done()
	}
	r.mu.Unlock()
	cut := context.AfterFunc(ctx, r.end)
	r.busy.Wait()
	cut()
	r.end()
	return nil
}

// within returns a context that ends after some time, by a clock.
func within(ctx context.Context, clock Clock, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := clock.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() {
		timer.Stop()
		cancel(nil)
	}
}
