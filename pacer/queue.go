package pacer

import (
	"context"
	"time"
)

// Queue is a leaky bucket with a queue: what comes in bursts goes out at a constant rate, strictly in the order in which
// it came. It is bounded, and what doesn't fit is refused at once. An item waits for the one that went last, which may be as
// large as the capacity, and for those that are waiting: for less than twice the time in which the capacity flows out.
// Only jobs that overran and gaps that cancelled reservations left make it longer.
//
// An item has a size in units. An item that finds the queue idle goes at once; the next one goes when the units of the
// items before it have flowed out. Idle time is not saved: no burst is scheduled. The outflow is exact. Items that went
// out late, because the machine was busy, do not delay those behind them, so all that are overdue go together; only jobs
// still run one at a time.
//
// Most callers want [Queue.Acquire]. One goroutine serves the queue until [Queue.Close]. The methods of the zero Queue
// return ErrUninitialized or false. It is safe for concurrent use.
type Queue struct {
	line line
}

var _ Pacer = (*Queue)(nil)

// QueueOptions are the options of [NewQueue].
type QueueOptions struct {
	// Rate is the outflow in units. There is no default.
	Rate Rate
	// Capacity is how many units may wait at a time, and so the largest item. There is no default.
	Capacity int64
}

// NewQueue returns an empty queue and starts its goroutine; Close ends it.
func NewQueue(o QueueOptions) (*Queue, error) {
	if err := o.Rate.validate(); err != nil {
		return nil, err
	}
	sched := newBucket(o.Rate)
	if err := validCapacity(&sched, o.Capacity, o.Rate); err != nil {
		return nil, err
	}
	q := &Queue{line: line{epoch: time.Now(), sched: &sched, most: o.Capacity, room: o.Capacity}}
	q.line.keep()
	return q, nil
}

// Acquire waits for the turn of an item of the given size. It returns how long it waited. It returns at once and takes
// nothing
//
//   - with ErrQueueFull, if the item doesn't fit behind those that are waiting,
//   - with a [*DeadlineError], if the turn comes after ctx's deadline,
//   - with ErrNever, if size is above the queue's capacity.
//
// If ctx is cancelled while the item waits, it leaves the queue, those behind it move up, and Acquire returns ctx's error. If
// the queue is closed, it returns ErrClosed. With an error it has taken nothing.
func (q *Queue) Acquire(ctx context.Context, size int64) (waited time.Duration, err error) {
	return q.line.acquire(ctx, size)
}

// TryAcquire waits for the turn of an item of the given size, for at most timeout, and returns true. If the wait would be
// longer it returns false at once and takes nothing, as it does if the item doesn't fit behind those that are waiting, if
// size is less than 1 or above the capacity, or if the queue is closed.
func (q *Queue) TryAcquire(size int64, timeout time.Duration) bool {
	return q.line.tryAcquire(size, timeout)
}

// Reserve takes the turn of an item of the given size, and doesn't wait for it. See [Reservation] for what is promised.
// Until its time has come the item is one of those that are waiting, and takes up room. If it doesn't fit it is not OK,
// with ErrQueueFull; if size is above the capacity, with ErrNever; if the queue is closed, with ErrClosed.
//
// The time goes by the sizes of those before. If one of them is a job that overruns, the reservation doesn't wait for it.
func (q *Queue) Reserve(size int64) Reservation { return q.line.reserve(size) }

// Submit leaves an item in the queue whose job the queue's goroutine will run when its turn comes, one job at a time. It
// returns at once, with the errors of [Queue.Acquire] if it doesn't take the item.
//
// The channel delivers one error and needs no reader: what the job returned, ErrClosed if the queue was closed before
// its turn, or ctx's error if that was cancelled before. The job's context is ctx, cancelled as well by Close. A job that
// takes longer than its size flows out holds up those behind it, and they are not sent closer together afterwards. A job
// may submit to its own queue, but must not wait for it: it would wait for itself.
//
// A job that panics crashes the program, as in any goroutine. One that calls [runtime.Goexit], perhaps by way of a test's
// FailNow, ends no more than itself, and its error is ErrJobExited.
func (q *Queue) Submit(ctx context.Context, size int64, do func(ctx context.Context) error) (<-chan error, error) {
	if ctx == nil {
		return nil, ErrNilContext
	}
	if do == nil {
		return nil, ErrNilJob
	}
	l := &q.line
	l.mu.Lock()
	defer l.mu.Unlock()
	now, after, grant, err := l.enter(ctx, size)
	if err != nil {
		return nil, err
	}
	if !l.idle(now, grant) {
		if err := l.roomFor(size); err != nil {
			return nil, err
		}
	}
	j := &job{ctx: ctx, do: do, result: make(chan error, 1)}
	p := &place{n: size, since: now, job: j}
	l.keeper.watch(p)
	l.join(p, after)
	l.settle(now)
	return j.result, nil
}

// Waiting returns how many units are waiting or reserved, from 0 to the capacity.
func (q *Queue) Waiting() int64 {
	l := &q.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sched == nil {
		return 0
	}
	_, now := l.clock()
	l.settle(now)
	return l.units
}

// Close refuses new items, sends those that are waiting away with ErrClosed, cancels the context of a job that is
// running, and returns when the queue's goroutine has ended. A job must not close its own queue: Close would wait for
// it. Closing again is fine and waits as well; closing the zero Queue does nothing.
func (q *Queue) Close() { q.line.close() }

// validCapacity checks the number of permits that a bucket is to hold.
func validCapacity(b *bucket, capacity int64, r Rate) error {
	if capacity < 1 {
		return badOption("Capacity", decimal(capacity), "1 or more")
	}
	if b.roomFor(capacity).ns >= farFuture {
		return badOption("Capacity", decimal(capacity),
			"what "+r.String()+" makes in less than 73 years")
	}
	return nil
}
