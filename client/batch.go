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
	// maxCalls limits the concurrent calls of one batcher. Further tasks wait until one of the calls returns.
	maxCalls = 8
	// callGroups is the number of calls that tasks are divided into under load. With three, the service executes one
	// call while another is in transit and the callers of the third run, so neither side waits for the other. More calls
	// would cost more work without a gain.
	callGroups = 3
	// minTasksPerCall is the minimum number of tasks that justifies one more call while others are under way.
	minTasksPerCall = 8
)

// A batcher sends several tasks in one call. If no call is under way, a task is sent immediately in the goroutine of
// its caller. Otherwise tasks wait until a call returns, until there are enough of them for a call, or until the first
// one has waited for the duration wait.
type batcher struct {
	// send sends tasks and sets their results. stream is nil for a single task that its caller sends.
	send      func(ctx context.Context, stream *callStream, deadline time.Time, tasks []*task)
	onLost    func(t *task) // called for tasks that were done after their callers gave up
	wait      time.Duration
	maxWeight int // maximum number of checks or requests in a call
	deadline  time.Duration

	mu       sync.Mutex
	pending  []*task
	weight   int  // sum of the weights of the pending tasks
	calls    int  // number of calls under way
	senders  int  // number of running senders, busy or idle
	inflight int  // number of tasks in calls under way
	overdue  bool // the pending tasks have waited long enough, and are sent with the next possible call
	timer    *time.Timer
	closed   bool
	ctx      context.Context //nolint:containedctx // ends the calls when the batcher is closed
	cancel   context.CancelFunc
	running  sync.WaitGroup // senders, and callers that send for themselves

	work      chan []*task // passes tasks to idle senders
	wakeLock  sync.Mutex   // held by a sender during its turn: see finish
	skipTurns atomic.Int64 // number of calls for which senders take no turns, because the process is busy
}

func newBatcher(o *Options, send func(context.Context, *callStream, time.Time, []*task), lost func(*task)) *batcher {
	b := &batcher{
		send: send, onLost: lost, wait: o.BatchWait, maxWeight: o.MaxBatch, deadline: o.Deadline,
		work: make(chan []*task),
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// run executes a task and returns its error. If owned is false, the task is still running and the caller must not use
// it.
func (b *batcher) run(ctx context.Context, t *task) (owned bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	t.size = t.bytesOnWire()
	t.deadline = time.Now().Add(b.deadline)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(t.deadline) {
		t.deadline = deadline
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return true, headgate.ErrClosed
	}
	if b.calls == 0 || b.wait < 0 {
		// A single task is sent in the caller's own goroutine, so that no other goroutine has to be woken.
		b.calls++
		b.inflight++
		b.running.Add(1)
		t.sent = true
		b.mu.Unlock()
		b.sendSingle(ctx, t)
		return true, t.err
	}
	b.pending = append(b.pending, t)
	b.weight += t.weight()
	switch {
	case b.weight >= b.maxWeight, b.enoughForCall():
		b.flush()
	case len(b.pending) == 1:
		b.setTimer(b.wait)
	}
	b.mu.Unlock()
	select {
	case <-t.done:
		return true, t.err
	case <-ctx.Done():
		owned, done := b.leave(t)
		if done { // the result arrived before ctx ended
			return true, t.err
		}
		return owned, ctx.Err()
	}
}

// sendSingle sends one task and then starts pending ones, if any.
func (b *batcher) sendSingle(ctx context.Context, t *task) {
	ctx, end := context.WithCancel(ctx)
	stop := context.AfterFunc(b.ctx, end)
	b.send(ctx, nil, t.deadline, []*task{t})
	if t.idempotent && connectionBroke(t.err) && ctx.Err() == nil {
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
	b.afterCall()
	b.mu.Unlock()
	b.running.Done()
}

// leave removes a task whose caller stops waiting. owned is true if the task was not sent or is done: the caller may
// then use it. done reports whether it is done.
func (b *batcher) leave(t *task) (owned, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.settled {
		<-t.done
		return true, true
	}
	if t.sent {
		t.abandoned = true
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

// setTimer makes sure that pending tasks do not wait for longer than d.
func (b *batcher) setTimer(d time.Duration) {
	if b.timer == nil {
		b.timer = time.AfterFunc(d, b.flushOverdue)
		return
	}
	b.timer.Reset(d)
}

// flushOverdue sends pending tasks that have waited long enough. If the maximum number of calls is under way, tasks
// stay pending until a call returns, and fail at their deadline.
func (b *batcher) flushOverdue() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
	if len(b.pending) == 0 || b.closed {
		return
	}
	b.overdue = true
	now, next := time.Now(), time.Time{}
	remaining := b.pending[:0]
	for _, t := range b.pending {
		if !t.deadline.After(now) {
			b.weight -= t.weight()
			t.fail(context.DeadlineExceeded)
			continue
		}
		if next.IsZero() || t.deadline.Before(next) {
			next = t.deadline
		}
		remaining = append(remaining, t)
	}
	clear(b.pending[len(remaining):])
	if b.pending = remaining; len(remaining) > 0 {
		b.setTimer(next.Sub(now))
	}
}

// enoughForCall reports whether there are enough pending tasks for a call: at least minTasksPerCall, and at least the
// share of one call in all unfinished tasks.
func (b *batcher) enoughForCall() bool {
	return b.calls < callGroups && len(b.pending) >= minTasksPerCall && len(b.pending) >= b.share()
}

// share returns the number of unfinished tasks divided by callGroups, rounded up.
func (b *batcher) share() int { return (b.inflight + len(b.pending) + callGroups - 1) / callGroups }

// afterCall sends pending tasks after a call has returned. If there are only a few, they wait until another call
// returns, so that tasks are not sent in many small calls.
func (b *batcher) afterCall() {
	if b.closed {
		b.failPending()
		return
	}
	if b.overdue || b.calls == 0 || 2*len(b.pending) >= b.share() {
		b.flush()
	}
}

// flush sends pending tasks while further calls are possible.
func (b *batcher) flush() {
	for len(b.pending) > 0 && b.calls < maxCalls && !b.closed {
		// Divide the tasks by the number of calls that are missing to callGroups, or by two if they are more than 1.5 shares.
		// Each call gets at least minTasksPerCall tasks, if there are so many.
		calls := max(callGroups-b.calls, 1)
		if 2*len(b.pending) > 3*b.share() {
			calls = max(calls, 2)
		}
		calls = max(min(calls, len(b.pending)/minTasksPerCall), 1)
		b.start(b.takePending((len(b.pending) + calls - 1) / calls))
	}
	b.overdue = b.overdue && len(b.pending) > 0
}

// start passes tasks to an idle sender, or starts a sender. Idle senders are reused, because their stacks have already
// grown to the necessary size.
func (b *batcher) start(batch []*task) {
	b.calls++
	select {
	case b.work <- batch:
	default:
		b.senders++
		b.running.Go(func() { b.serve(batch) })
	}
}

// serve sends a batch, and then further batches from b.work until it has been idle for maxStreamIdle.
func (b *batcher) serve(batch []*task) {
	var stream callStream
	defer func() {
		stream.close()
		b.mu.Lock()
		b.senders--
		b.mu.Unlock()
	}()
	idle := time.NewTimer(maxStreamIdle)
	defer idle.Stop()
	for {
		b.call(&stream, batch)
		b.finish(batch)
		idle.Reset(maxStreamIdle)
		select {
		case batch = <-b.work:
		case <-idle.C:
			return
		case <-b.ctx.Done():
			return
		}
	}
}

// takePending takes as many tasks as one call may contain.
func (b *batcher) takePending(maxTasks int) []*task {
	n, weight, size := 0, 0, 0
	for n < maxTasks &&
		(n == 0 || weight+b.pending[n].weight() <= b.maxWeight && size+b.pending[n].size <= maxBatchBytes) {
		size += b.pending[n].size
		weight += b.pending[n].weight()
		b.pending[n].sent = true
		n++
	}
	batch := make([]*task, n)
	copy(batch, b.pending)
	b.pending = append(b.pending[:0], b.pending[n:]...)
	clear(b.pending[len(b.pending) : len(b.pending)+n])
	b.weight -= weight
	b.inflight += n
	return batch
}

// finish wakes the callers of tasks, and sends tasks that have arrived meanwhile. Senders take turns: a sender holds
// wakeLock until the next tasks of its callers have been sent. So if several responses arrive at the same time, the
// service already has new tasks while the other callers are woken. Without turns, all callers would soon send at the
// same time and then wait at the same time.
func (b *batcher) finish(batch []*task) {
	inTurn := b.skipTurns.Load() <= 0
	if inTurn {
		b.wakeLock.Lock()
		defer b.wakeLock.Unlock()
	}
	b.mu.Lock()
	done, retries := b.settle(batch)
	b.pending = append(retries, b.pending...)
	for _, t := range retries {
		b.weight += t.weight()
	}
	b.inflight -= len(batch)
	b.mu.Unlock()
	for _, t := range done { // without the lock, because callers take it as soon as they are woken
		t.done <- struct{}{}
	}
	runtime.Gosched() // let callers send again
	b.mu.Lock()
	b.calls--
	b.afterCall()
	if len(retries) > 0 && len(b.pending) > 0 && !b.closed {
		b.setTimer(b.wait)
	}
	b.mu.Unlock()
	if !inTurn {
		b.skipTurns.Add(-1)
		return
	}
	began := time.Now()
	for range 2 { // let the sender pass the tasks to gRPC, and then let gRPC write them
		runtime.Gosched()
	}
	if time.Since(began) > maxTurn {
		b.skipTurns.Store(skippedTurns)
	}
}

// If a turn takes longer than maxTurn, the process is busy, and senders take no turns for the next skippedTurns calls.
const (
	maxTurn      = 100 * time.Microsecond
	skippedTurns = 64
)

// call sends tasks. The call may last until the latest of their deadlines.
func (b *batcher) call(stream *callStream, batch []*task) {
	deadline := batch[0].deadline
	for _, t := range batch[1:] {
		if t.deadline.After(deadline) {
			deadline = t.deadline
		}
	}
	b.send(b.ctx, stream, deadline, batch)
	if b.ctx.Err() == nil {
		return
	}
	for _, t := range batch {
		if t.err != nil {
			t.err = headgate.ErrClosed
		}
	}
}

// settle divides tasks that were sent. It returns the tasks whose callers must be woken, and the failed tasks to send
// again. It passes tasks without a caller to onLost.
func (b *batcher) settle(batch []*task) (done, retries []*task) {
	done = batch[:0]
	for _, t := range batch {
		switch {
		case t.abandoned:
			b.onLost(t)
		case t.idempotent && connectionBroke(t.err) && time.Now().Before(t.deadline):
			t.idempotent, t.sent = false, false
			retries = append(retries, t)
		default:
			t.settled = true
			done = append(done, t)
		}
	}
	return done, retries
}

// failPending ends tasks that a closed batcher will not send.
func (b *batcher) failPending() {
	for _, t := range b.pending {
		t.fail(headgate.ErrClosed)
	}
	b.pending, b.weight = nil, 0
}

// close ends the calls under way, and waits for them.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	if b.timer != nil {
		b.timer.Stop()
	}
	b.failPending()
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
}
