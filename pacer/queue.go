package pacer

import (
	"context"
	"time"
)

// Queue is a leaky bucket with a queue: items arrive in bursts and leave at a constant rate, strictly in order. An item
// has a size in units. If there is no room for its units in the queue, it is refused immediately.
//
// If the queue is idle, an item passes at once. The next item passes when the units of the items before it have flowed
// out. So an item waits less than twice the time in which the capacity flows out, unless jobs take longer than their
// size allows or cancelled reservations leave gaps. Idle time is not saved: no burst is scheduled. The outflow is
// exact. If items pass late because the machine was busy, the items behind them are not delayed further: all items
// whose time has passed leave together. Jobs still run one at a time.
//
// A reservation counts as waiting until its time has come. Its time depends on the sizes of the items before it, but
// not on how long their jobs run.
//
// Most callers want [Queue.Acquire]. One goroutine serves the queue until [Queue.Close]. The methods of the zero Queue
// return ErrUninitialized or false. It is safe for concurrent use.
type Queue struct {
	callerQueue
}

var _ Pacer = (*Queue)(nil)

// QueueOptions are the options of [NewQueue].
type QueueOptions struct {
	// Rate is the outflow in units. There is no default.
	Rate Rate
	// Capacity is the maximum number of waiting units. An item cannot be larger. There is no default.
	Capacity int64
}

// NewQueue returns an empty queue and starts its goroutine; Close ends it.
func NewQueue(o QueueOptions) (*Queue, error) {
	if err := o.Rate.validate(); err != nil {
		return nil, err
	}
	sched := newBucket(o.Rate)
	if err := validateCapacity(&sched, o.Capacity, o.Rate); err != nil {
		return nil, err
	}
	q := &Queue{callerQueue: callerQueue{epoch: time.Now(), sched: &sched, maxPermits: o.Capacity, maxWaiting: o.Capacity}}
	q.startWorker()
	return q, nil
}

// Submit adds an item with a job, and returns at once. When the item may pass, the queue's goroutine calls do. Jobs run
// one at a time. If Submit refuses the item, it returns the same error as [Queue.Acquire].
//
// The channel receives one error, whether or not it is read: the result of do, ErrClosed if the queue was closed before
// the job started, or ctx's error if ctx ended before. The context of do ends with ctx, and is cancelled by Close. A
// job that takes longer than the time in which its size flows out delays the jobs behind it, and later jobs do not make
// up for the delay. A job may submit to its own queue, but must not wait for the result, because jobs run one at a
// time.
//
// A job that panics crashes the program, as in any goroutine. A job that calls [runtime.Goexit], for example through a
// test's FailNow, ends only itself, and its error is ErrJobExited.
func (q *Queue) Submit(ctx context.Context, size int64, do func(ctx context.Context) error) (<-chan error, error) {
	if ctx == nil {
		return nil, ErrNilContext
	}
	if do == nil {
		return nil, ErrNilJob
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now, after, passAt, err := q.quoteFor(ctx, size)
	if err != nil {
		return nil, err
	}
	if !q.canPass(now, passAt) {
		if err := q.checkCapacity(size); err != nil {
			return nil, err
		}
	}
	j := &job{ctx: ctx, do: do, result: make(chan error, 1)}
	w := &waiter{n: size, queuedAt: now, job: j}
	q.worker.watch(w)
	q.enqueue(w, after)
	q.admitDue(now)
	return j.result, nil
}

// Waiting returns the number of units that are waiting or reserved, from 0 to the capacity.
func (q *Queue) Waiting() int64 {
	return q.evaluate(func(_ int64) int64 { return q.waitingPermits })
}

// Close rejects new and waiting items with ErrClosed, cancels the context of the running job, and returns when the
// queue's goroutine has ended. A job must not close its own queue, because Close waits for the job. Close may be called
// several times; each call waits. Closing the zero Queue does nothing.
func (q *Queue) Close() { q.close() }

// validateCapacity validates the Capacity of a Queue or TokenQueue, whose bucket is b.
func validateCapacity(b *bucket, capacity int64, r Rate) error {
	if capacity < 1 {
		return badOption("Capacity", decimal(capacity), "1 or more")
	}
	if b.timeFor(capacity).ns >= farFuture {
		return badOption("Capacity", decimal(capacity),
			"the permits of less than 73 years at "+r.String())
	}
	return nil
}
