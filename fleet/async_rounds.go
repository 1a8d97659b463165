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
	pause func() time.Duration
	do    func(ctx context.Context, early bool)

	mu      sync.Mutex
	timer   Timer
	due     time.Duration // by the clock: when the next round is to begin, if nobody hurries
	rest    time.Duration // by the clock: before then no early round begins
	running bool
	hurried bool // an early round is wanted
	closing bool
}

// minRest is how long there is no early round after any round, at the least: as long as that one took, if it took longer. So
// what is wanted meanwhile is done together, and early rounds take half of the time at most.
const minRest = 2 * time.Millisecond

// begin has do called after each pause, which is from the beginning of one round to that of the next, and early when somebody
// hurries.
func (r *rounds) begin(clock Clock, pause func() time.Duration, do func(ctx context.Context, early bool)) {
	r.clock, r.pause, r.do = clock, pause, do
	r.life, r.end = context.WithCancel(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = clock.Now() + pause()
	r.schedule()
}

// schedule has the next round come. It is called with the lock held.
func (r *rounds) schedule() {
	if r.closing {
		return
	}
	at := r.due
	if r.hurried {
		at = min(at, r.rest)
	}
	r.busy.Add(1)
	r.timer = r.clock.AfterFunc(max(0, at-r.clock.Now()), r.round)
}

func (r *rounds) round() {
	defer r.busy.Done()
	r.mu.Lock()
	began := r.clock.Now()
	early := began < r.due
	if !early {
		r.due = began + r.pause()
	}
	r.running, r.hurried = true, false
	r.mu.Unlock()
	r.do(r.life, early)
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.clock.Now()
	r.running, r.rest = false, ended+max(minRest, ended-began)
	r.schedule()
}

// hurry has a round come as soon as may be.
func (r *rounds) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hurried || r.closing {
		return
	}
	r.hurried = true
	if !r.running && r.timer.Stop() {
		r.busy.Done()
		r.schedule()
	}
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
