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
	size     int  // about how many bytes it takes on the wire

	// Under the batcher's lock.
	sent    bool // it is on its way, or was
	left    bool // nobody waits for it any more
	settled bool // it is done, and whoever waits is about to be told

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
	t.sent, t.left, t.settled, t.safe, t.err = false, false, false, false, nil
	t.checks, t.one, t.receipt, t.verb = nil, [1]headgate.Check{}, headgate.Receipt{}, 0
	t.decisions = t.decisions[:0]
	tasks.Put(t)
}

// maxBytes is how much travels together at most. The service reads 1 MiB at a time unless told otherwise, and what is too much
// for it fails for all that travel with it.
const maxBytes = 512 << 10

// bytes returns about how many bytes a task takes on the wire.
func (t *task) bytes() int {
	const numbers = 64 // and what is before texts
	size := numbers
	for i := range t.checks {
		size += 2*numbers + len(t.checks[i].Key) + len(t.checks[i].Owner)
	}
	if len(t.checks) > 0 {
		return size
	}
	q := &t.request
	size += len(q.Rule) + len(q.User) + len(q.IP) + len(q.APIKey)
	for i := range q.Attributes {
		const before = 8
		size += before + len(q.Attributes[i].Name) + len(q.Attributes[i].Value)
	}
	return size
}

// maxCalls is how many calls of one batcher may be under way. Tasks beyond wait for one of them to return.
const maxCalls = 8

// A batcher sends tasks together. One that is alone is sent at once; those that come while calls are under way gather until
// one returns, there are enough of them, or the first has waited long enough. When there are many, as many calls as may be take
// turns, each with its share of them, so that this side writes while the other answers and neither falls asleep: waking up takes
// longer than a call. A call that returns leaves those who are pending to the next if they are few: callers must not fall apart
// into many small groups.
type batcher struct {
	send func(ctx context.Context, tasks []*task) // fills in what came of them
	lost func(t *task)                            // is told of tasks that were done after nobody waited for them
	wait time.Duration
	most int // in checks or requests
	life time.Duration

	mu       sync.Mutex
	pending  []*task
	weight   int  // of those that are pending
	calls    int  // under way
	inflight int  // tasks in them
	overdue  bool // those that are pending have waited long enough, and go with the next call that may be
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
	t.size = t.bytes()
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
		b.inflight++
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
		mine, done := b.leave(t)
		if done { // what it holds is not lost
			return true, t.err
		}
		return mine, ctx.Err()
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
	b.inflight--
	send := b.overdue || b.enough()
	if b.calls--; b.calls == 0 && !b.closed && len(b.pending) >= worthTwo {
		b.start(b.next(len(b.pending) / 2))
	}
	if send {
		b.flush()
	}
	b.mu.Unlock()
	b.underway.Done()
}

// leave is called by who does not wait any longer. It returns whether the task is his, since it was not sent or is done, and
// whether it is done.
func (b *batcher) leave(t *task) (mine, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.settled {
		<-t.done
		return true, true
	}
	if t.sent {
		t.left = true
		return false, false
	}
	for i, p := range b.pending {
		if p == t {
			b.pending = append(b.pending[:i], b.pending[i+1:]...)
			b.weight -= t.weight()
			break
		}
	}
	return true, false
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
	b.overdue = true
	now, next := time.Now(), time.Time{}
	kept := b.pending[:0]
	for _, t := range b.pending {
		if !t.deadline.After(now) {
			b.weight -= t.weight()
			t.fail(context.DeadlineExceeded)
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

// worthTwo is how many tasks are enough for two calls.
const worthTwo = 16

// flush sends those that are pending, if there may be another call.
func (b *batcher) flush() {
	for len(b.pending) > 0 && b.calls < maxCalls && !b.closed {
		b.start(b.next(len(b.pending)))
	}
	b.overdue = b.overdue && len(b.pending) > 0
}

// start sends tasks.
func (b *batcher) start(together []*task) {
	b.calls++
	b.underway.Go(func() { b.run(together) })
}

// next takes as many tasks as may travel together, and no more than that.
func (b *batcher) next(most int) []*task {
	n, weight, size := 0, 0, 0
	for n < most && (n == 0 || weight+b.pending[n].weight() <= b.most && size+b.pending[n].size <= maxBytes) {
		size += b.pending[n].size
		weight += b.pending[n].weight()
		b.pending[n].sent = true
		n++
	}
	together := make([]*task, n)
	copy(together, b.pending)
	b.pending = append(b.pending[:0], b.pending[n:]...)
	clear(b.pending[len(b.pending) : len(b.pending)+n])
	b.weight -= weight
	b.inflight += n
	return together
}

// run sends tasks, and then those that have come meanwhile.
func (b *batcher) run(together []*task) {
	for together != nil {
		b.call(together)
		b.mu.Lock()
		done, again := b.settle(together)
		b.pending = append(again, b.pending...)
		for _, t := range again {
			b.weight += t.weight()
		}
		b.inflight -= len(together)
		few := len(b.pending) < len(together)
		b.mu.Unlock()
		for _, t := range done { // without the lock, which they take as soon as they wake
			t.done <- struct{}{}
		}
		if few {
			// Those who have just got their answers are about to ask again: let them, so that they travel together.
			runtime.Gosched()
		}
		b.mu.Lock()
		together = nil
		if b.closed || len(b.pending) == 0 || !b.overdue && !b.enough() {
			b.calls--
			b.fail()
		} else {
			most := len(b.pending)
			if b.calls == 1 && most >= worthTwo {
				b.start(b.next(most / 2))
				most = len(b.pending)
			}
			together = b.next(most)
			b.overdue = b.overdue && len(b.pending) > 0
		}
		if len(again) > 0 && len(b.pending) > 0 && !b.closed {
			b.arm(b.wait)
		}
		b.mu.Unlock()
	}
}

// enough tells whether those who are pending are worth a call of their own, by one that has returned.
func (b *batcher) enough() bool {
	return b.calls < maxCalls || (maxCalls+1)*len(b.pending) >= b.inflight
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

// settle sorts tasks that were sent: done are those that somebody waits for, again those that failed and may be sent again.
func (b *batcher) settle(together []*task) (done, again []*task) {
	done = together[:0]
	for _, t := range together {
		switch {
		case t.left:
			b.lost(t)
		case t.safe && broke(t.err) && time.Now().Before(t.deadline):
			t.safe, t.sent = false, false
			again = append(again, t)
		default:
			t.settled = true
			done = append(done, t)
		}
	}
	return done, again
}

// fail tells whoever waits for a task that was not sent.
func (t *task) fail(err error) {
	t.err, t.settled = err, true
	t.done <- struct{}{}
}

// fail ends tasks that a batcher which is closed will not send.
func (b *batcher) fail() {
	if !b.closed {
		return
	}
	for _, t := range b.pending {
		t.fail(headgate.ErrClosed)
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
