package client

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

const (
	// maxCalls is how many calls of one batcher may be under way. Tasks beyond wait for one of them to return.
	maxCalls = 8
	// groups is into how many calls those fall who ask again and again. While one of them is with its callers another is with
	// the service and a third on its way, so that neither side waits for the other; with more there would be more calls to pay
	// for and no more done.
	groups = 3
	// worthOne is how many tasks are enough for a call beside others.
	worthOne = 8
)

// A batcher sends tasks together. One that is alone is sent at once, by who asks; those that come while calls are under way
// gather until one returns, they are a group, or the first has waited long enough.
type batcher struct {
	// send fills in what came of tasks. Those who send again and again have a lane, which is nil otherwise.
	send func(ctx context.Context, l *lane, deadline time.Time, tasks []*task)
	lost func(t *task) // is told of tasks that were done after nobody waited for them
	wait time.Duration
	most int // in checks or requests
	life time.Duration

	mu       sync.Mutex
	pending  []*task
	weight   int  // of those that are pending
	calls    int  // under way
	senders  int  // that are there, with something to do or without
	inflight int  // tasks in them
	overdue  bool // those that are pending have waited long enough, and go with the next call that may be
	timer    *time.Timer
	closed   bool
	ctx      context.Context //nolint:containedctx // it ends the calls when the batcher is closed
	cancel   context.CancelFunc
	underway sync.WaitGroup // senders, and those who send for themselves

	work  chan []*task // for senders that have nothing to do
	turn  sync.Mutex   // held by a sender that sees its callers off
	hurry atomic.Int64 // so many senders do not wait for their turn
}

func newBatcher(o *Options, send func(context.Context, *lane, time.Time, []*task), lost func(*task)) *batcher {
	b := &batcher{send: send, lost: lost, wait: o.BatchWait, most: o.MaxBatch, life: o.Deadline, work: make(chan []*task)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

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
	case b.weight >= b.most, b.group():
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
	ctx, end := context.WithCancel(ctx)
	stop := context.AfterFunc(b.ctx, end)
	b.send(ctx, nil, t.deadline, []*task{t})
	if t.safe && broke(t.err) && ctx.Err() == nil {
		b.send(ctx, nil, t.deadline, []*task{t})
	}
	if t.err != nil && b.ctx.Err() != nil {
		t.err = headgate.ErrClosed
	}
	stop()
	end()
	b.mu.Lock()
	b.inflight--
	b.calls--
	b.proceed()
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

// group tells whether those who are pending are a group: their share of all who wait for an answer.
func (b *batcher) group() bool {
	return b.calls < groups && len(b.pending) >= worthOne && len(b.pending) >= b.share()
}

// share is what each of the groups has of all who wait for an answer.
func (b *batcher) share() int { return (b.inflight + len(b.pending) + groups - 1) / groups }

// proceed goes on after a call has returned. Those who are pending are left to the next call that returns if they are few:
// callers must not fall apart into many small groups.
func (b *batcher) proceed() {
	if b.closed {
		b.fail()
		return
	}
	if b.overdue || b.calls == 0 || 2*len(b.pending) >= b.share() {
		b.flush()
	}
}

// flush sends those that are pending, as long as there may be another call: in as many groups as there is room for, in two
// if they are far more than a group, and in one if they are few.
func (b *batcher) flush() {
	for len(b.pending) > 0 && b.calls < maxCalls && !b.closed {
		n := max(groups-b.calls, 1)
		if 2*len(b.pending) > 3*b.share() {
			n = max(n, 2)
		}
		n = max(min(n, len(b.pending)/worthOne), 1)
		b.start(b.next((len(b.pending) + n - 1) / n))
	}
	b.overdue = b.overdue && len(b.pending) > 0
}

// start has a sender send tasks. Those who have done so before have the stack for it, so they are kept.
func (b *batcher) start(together []*task) {
	b.calls++
	select {
	case b.work <- together:
	default:
		b.senders++
		b.underway.Go(func() { b.serve(together) })
	}
}

// serve sends tasks, and then what else there is to send.
func (b *batcher) serve(together []*task) {
	var l lane
	defer func() {
		l.close()
		b.mu.Lock()
		b.senders--
		b.mu.Unlock()
	}()
	idle := time.NewTimer(laneIdle)
	defer idle.Stop()
	for {
		b.call(&l, together)
		b.finish(together)
		idle.Reset(laneIdle)
		select {
		case together = <-b.work:
		case <-idle.C:
			return
		case <-b.ctx.Done():
			return
		}
	}
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

// finish tells callers what came of their tasks, and sends those that have come meanwhile. Senders do so one by one, each
// until its callers have asked again and what they ask is on its way: if the answers to several calls come at once, the
// service has something to do before the last callers are told. Otherwise all would soon ask at once, and then wait at once.
func (b *batcher) finish(together []*task) {
	inTurn := b.hurry.Load() <= 0
	if inTurn {
		b.turn.Lock()
		defer b.turn.Unlock()
	}
	b.mu.Lock()
	done, again := b.settle(together)
	b.pending = append(again, b.pending...)
	for _, t := range again {
		b.weight += t.weight()
	}
	b.inflight -= len(together)
	b.mu.Unlock()
	for _, t := range done { // without the lock, which they take as soon as they wake
		t.done <- struct{}{}
	}
	runtime.Gosched() // they ask again
	b.mu.Lock()
	b.calls--
	b.proceed()
	if len(again) > 0 && len(b.pending) > 0 && !b.closed {
		b.arm(b.wait)
	}
	b.mu.Unlock()
	if !inTurn {
		b.hurry.Add(-1)
		return
	}
	began := time.Now()
	for range 2 { // the sender hands over what is to be sent, and gRPC writes it when it has seen that nothing else comes
		runtime.Gosched()
	}
	if time.Since(began) > crowded {
		b.hurry.Store(hurried)
	}
}

// A process in which that takes longer than crowded has much else to do, and nobody should wait for a turn. It is tried again
// after hurried calls.
const (
	crowded = 100 * time.Microsecond
	hurried = 64
)

func (b *batcher) call(l *lane, together []*task) {
	deadline := together[0].deadline
	for _, t := range together[1:] {
		if t.deadline.After(deadline) {
			deadline = t.deadline
		}
	}
	b.send(b.ctx, l, deadline, together)
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
