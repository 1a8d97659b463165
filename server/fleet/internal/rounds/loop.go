package rounds

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/clock"
)

// A Loop runs rounds of a task one after the other until it is stopped.
type Loop struct {
	clock  clock.Stopwatch
	ctx    context.Context // ends with the loop
	cancel context.CancelFunc
	busy   sync.WaitGroup // the current round, or the timer of the next
	pause  func() time.Duration
	do     func(ctx context.Context, early bool)

	mu             sync.Mutex
	timer          clock.Timer
	due            time.Duration // when the next regular round starts, by the clock
	earliest       time.Duration // no early round starts before this time
	running        bool
	earlyRequested bool
	closing        bool
}

// minRest is the minimum time between a round and an early round. If the round took longer, the rest is as long as the
// round. So requests during this time are handled together, and early rounds take at most half of the time.
const minRest = 2 * time.Millisecond

// Start runs do after each pause, and earlier after Hurry. A pause lasts from the start of one round to the start of
// the next.
func (r *Loop) Start(c clock.Clock, pause func() time.Duration, do func(ctx context.Context, early bool)) {
	r.clock, r.pause, r.do = clock.NewStopwatch(c), pause, do
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = pause()
	r.schedule()
}

// schedule starts the timer of the next round. The lock is held.
func (r *Loop) schedule() {
	if r.closing {
		return
	}
	at := r.due
	if r.earlyRequested {
		at = min(at, r.earliest)
	}
	r.busy.Add(1)
	r.timer = r.clock.AfterFunc(max(0, at-r.clock.Elapsed()), r.round)
}

func (r *Loop) round() {
	defer r.busy.Done()
	r.mu.Lock()
	startedAt := r.clock.Elapsed()
	early := startedAt < r.due
	if !early {
		r.due = startedAt + r.pause()
	}
	r.running, r.earlyRequested = true, false
	r.mu.Unlock()
	r.do(r.ctx, early)
	r.mu.Lock()
	defer r.mu.Unlock()
	endedAt := r.clock.Elapsed()
	r.running, r.earliest = false, endedAt+max(minRest, endedAt-startedAt)
	r.schedule()
}

// Hurry requests a round as soon as possible.
func (r *Loop) Hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.earlyRequested || r.closing {
		return
	}
	r.earlyRequested = true
	if !r.running && r.timer.Stop() {
		r.busy.Done()
		r.schedule()
	}
}

// Stop ends the loop and waits for the current round, which is canceled when ctx ends. It returns headgate.ErrClosed if
// the loop was stopped before.
func (r *Loop) Stop(ctx context.Context) error {
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
	stop := context.AfterFunc(ctx, r.cancel)
	r.busy.Wait()
	stop()
	r.cancel()
	return nil
}

// Finish stops the loop, calls round until it returns false or an error or until ctx ends, and then calls end. Calling
// Finish again does nothing.
func (r *Loop) Finish(ctx context.Context, round func(context.Context) (more bool, err error), end func() error) error {
	err := r.Stop(ctx)
	if errors.Is(err, headgate.ErrClosed) {
		return nil
	}
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = round(ctx)
	}
	return errors.Join(err, end())
}
