package fleet

import (
	"context"
	"errors"
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

// finish ends the rounds, then makes more until nothing is left to do, as long as ctx lasts, and closes the ledger that they
// are about.
func (r *rounds) finish(ctx context.Context, round func(context.Context) (more bool, err error), about *Ledger) error {
	err := r.stop(ctx)
	if err != nil {
		return err
	}
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = round(ctx)
	}
	return errors.Join(err, about.Close())
}

// spread returns how long to wait between rounds of which there are some in an interval: a little less than it may be, so that
// nodes don't keep step.
func spread(interval time.Duration, random func(n int64) int64) func() time.Duration {
	period := int64(interval / perInterval)
	return func() time.Duration { return time.Duration(period - random(period/5+1)) }
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
