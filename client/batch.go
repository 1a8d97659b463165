package client

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/grpcwire/wirev1"
)

// A task is a call that somebody waits for.
type task struct {
	done     chan struct{} // holds one when it is done
	deadline time.Time
	safe     bool // it may be sent again

	// Under the batcher's lock.
	sent bool // it is on its way, or was
	left bool // nobody waits for it any more

	request wirev1.RateLimitRequest // of RateLimit
	answer  Answer

	verb      wirev1.Verb // of the store
	checks    []headgate.Check
	one       [1]headgate.Check
	receipt   headgate.Receipt
	decisions []headgate.Decision

	err error
}

var tasks = sync.Pool{New: func() any { return &task{done: make(chan struct{}, 1)} }}

func newTask() *task { return tasks.Get().(*task) }

// free lets the task be used again. Whoever calls it has been told that it is done.
func (t *task) free() {
	t.sent, t.left, t.safe, t.err = false, false, false, nil
	t.checks, t.one, t.receipt, t.verb = nil, [1]headgate.Check{}, headgate.Receipt{}, 0
	t.decisions = t.decisions[:0]
	tasks.Put(t)
}

// maxCalls is how many calls of one batcher may be under way. Tasks beyond wait for one of them to return.
const maxCalls = 16

// A batcher sends tasks together. One that is alone is sent at once; those that come while a call is under way gather until
// it returns, there are enough of them, or the first has waited long enough.
type batcher struct {
	send func(ctx context.Context, tasks []*task) // fills in what came of them
	lost func(t *task)                            // is told of tasks that were done after nobody waited for them
	wait time.Duration
	most int // in checks or requests
	life time.Duration

	mu       sync.Mutex
	pending  []*task
	weight   int // of those that are pending
	calls    int // under way
	timer    *time.Timer
	closed   bool
	ctx      context.Context //nolint:containedctx // it ends the calls when the batcher is closed
	cancel   context.CancelFunc
	underway sync.WaitGroup
}

func newBatcher(o *Options, send func(context.Context, []*task), lost func(*task)) *batcher {
	b := &batcher{send: send, lost: lost, wait: o.BatchWait, most: o.MaxBatch, life: o.Deadline}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// weight is what a task adds to a batch.
func (t *task) weight() int { return max(len(t.checks), 1) }

// do has a task done, or returns why not. The task is the caller's again if it returns true.
func (b *batcher) do(ctx context.Context, t *task) (mine bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	t.deadline = time.Now().Add(b.life)
	if by, ok := ctx.Deadline(); ok && by.Before(t.deadline) {
		t.deadline = by
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return true, headgate.ErrClosed
	}
	if b.calls == 0 || b.wait < 0 {
		// Alone, so in the caller's own goroutine: nobody has to be woken.
		b.calls++
		b.underway.Add(1)
		t.sent = true
		b.mu.Unlock()
		b.alone(ctx, t)
		return true, t.err
	}
	b.pending = append(b.pending, t)
	b.weight += t.weight()
	switch {
	case b.weight >= b.most:
		b.flush()
	case len(b.pending) == 1:
		b.arm(b.wait)
	}
	b.mu.Unlock()
	select {
	case <-t.done:
		return true, t.err
	case <-ctx.Done():
		return b.leave(t), ctx.Err()
	}
}

// alone sends one task and then, if others have come meanwhile, lets them go.
func (b *batcher) alone(ctx context.Context, t *task) {
	ctx, end := context.WithDeadline(ctx, t.deadline)
	stop := context.AfterFunc(b.ctx, end)
	b.send(ctx, []*task{t})
	if t.safe && broke(t.err) && ctx.Err() == nil {
		b.send(ctx, []*task{t})
	}
	if t.err != nil && b.ctx.Err() != nil {
		t.err = headgate.ErrClosed
	}
	stop()
	end()
	b.mu.Lock()
	b.calls--
	b.flush()
	b.mu.Unlock()
	b.underway.Done()
}

// leave is called by who does not wait any longer. It returns whether the task is his: it was not sent, or is done.
func (b *batcher) leave(t *task) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-t.done:
		return true
	default:
	}
	if t.sent {
		t.left = true
		return false
	}
	for i, p := range b.pending {
		if p == t {
			b.pending = append(b.pending[:i], b.pending[i+1:]...)
			b.weight -= t.weight()
			break
		}
	}
	return true
}

// arm sees to it that those who are pending do not wait for longer than d.
func (b *batcher) arm(d time.Duration) {
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.late)
		return
	}
	b.timer.Reset(d)
}

// late is called when those who are pending have waited long enough. If there are as many calls as may be, they go on
// waiting until one returns, or their deadline.
func (b *batcher) late() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
	if len(b.pending) == 0 || b.closed {
		return
	}
	now, next := time.Now(), time.Time{}
	kept := b.pending[:0]
	for _, t := range b.pending {
		if !t.deadline.After(now) {
			b.weight -= t.weight()
			t.err = context.DeadlineExceeded
			t.done <- struct{}{}
			continue
		}
		if next.IsZero() || t.deadline.Before(next) {
			next = t.deadline
		}
		kept = append(kept, t)
	}
	clear(b.pending[len(kept):])
	if b.pending = kept; len(kept) > 0 {
		b.arm(next.Sub(now))
	}
}

// flush sends those that are pending, if there may be another call.
func (b *batcher) flush() {
	for len(b.pending) > 0 && b.calls < maxCalls && !b.closed {
		together := b.next()
		b.calls++
		b.underway.Go(func() { b.run(together) })
	}
}

// next takes as many tasks as may travel together.
func (b *batcher) next() []*task {
	n, weight := 0, 0
	for n < len(b.pending) && (n == 0 || weight+b.pending[n].weight() <= b.most) {
		weight += b.pending[n].weight()
		b.pending[n].sent = true
		n++
	}
	together := make([]*task, n)
	copy(together, b.pending)
	b.pending = append(b.pending[:0], b.pending[n:]...)
	clear(b.pending[len(b.pending) : len(b.pending)+n])
	b.weight -= weight
	return together
}

// run sends tasks, and then those that have come meanwhile.
func (b *batcher) run(together []*task) {
	for together != nil {
		b.call(together)
		b.mu.Lock()
		again := b.finish(together)
		b.pending = append(again, b.pending...)
		for _, t := range again {
			b.weight += t.weight()
		}
		if len(b.pending) < len(together) {
			// Those who have just got their answers are about to ask again: let them, so that they travel together.
			b.mu.Unlock()
			runtime.Gosched()
			b.mu.Lock()
		}
		together = nil
		if len(b.pending) > 0 && !b.closed {
			together = b.next()
		} else {
			b.calls--
			b.fail()
		}
		b.mu.Unlock()
	}
}

func (b *batcher) call(together []*task) {
	deadline := together[0].deadline
	for _, t := range together[1:] {
		if t.deadline.After(deadline) {
			deadline = t.deadline
		}
	}
	ctx, end := context.WithDeadline(b.ctx, deadline)
	defer end()
	b.send(ctx, together)
	if b.ctx.Err() == nil {
		return
	}
	for _, t := range together {
		if t.err != nil {
			t.err = headgate.ErrClosed
		}
	}
}

// finish tells those who wait. Tasks that failed and may be sent again are returned.
func (b *batcher) finish(together []*task) (again []*task) {
	for _, t := range together {
		switch {
		case t.left:
			b.lost(t)
		case t.safe && broke(t.err) && time.Now().Before(t.deadline):
			t.safe, t.sent = false, false
			again = append(again, t)
		default:
			t.done <- struct{}{}
		}
	}
	return again
}

// fail ends tasks that a batcher which is closed will not send.
func (b *batcher) fail() {
	if !b.closed {
		return
	}
	for _, t := range b.pending {
		t.err = headgate.ErrClosed
		t.done <- struct{}{}
	}
	b.pending, b.weight = nil, 0
}

// close ends what is under way, and waits for it.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	b.fail()
	b.mu.Unlock()
	b.cancel()
	b.underway.Wait()
}
