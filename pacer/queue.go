package pacer

import (
	"context"
	"time"
)

// Queue is a leaky bucket with a queue: items arrive in bursts and leave at a constant rate, strictly in order. It is
// bounded; items that do not fit are refused immediately. An item waits for the last item that passed, which may be
// as large as the capacity, and for the items in front of it. So it waits less than twice the time in which the
// capacity flows out, unless jobs overrun or cancelled reservations leave gaps.
//
// An item has a size in units. An item that finds the queue idle passes at once; the next one passes when the units of
// the items before it have flowed out. Idle time is not saved: no burst is scheduled. The outflow is exact. Items
// that pass late, because the machine was busy, do not delay the items behind them, so all overdue items pass
// together. Jobs still run one at a time.
//
// A reservation counts as waiting until its time has come. Its time depends on the sizes of the items before it, but it
// does not wait for a job that overruns.
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
	// Capacity limits the waiting units, and thus the size of an item. There is no default.
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

// Submit adds an item whose job the queue's goroutine runs when it may pass, one job at a time. It returns at once,
// with the errors of [Queue.Acquire] if it refuses the item.
//
// The channel delivers one error and needs no reader: the job's result, ErrClosed if the queue was closed before the
// job started, or ctx's error if that was cancelled before. The job's context is ctx, also cancelled by Close. A job
// that takes longer than the time in which its size flows out delays the jobs behind it. Later jobs are not started
// closer together to make up for it. A job may submit to its own queue, but must not wait for the result: it would
// wait for itself.
//
// A job that panics crashes the program, as in any goroutine. A job that calls [runtime.Goexit], perhaps through a
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
	return q.measure(func(_ int64) int64 { return q.waitingPermits })
}

// Close refuses new items, rejects waiting ones with ErrClosed, cancels the context of the running job, and returns
// when the queue's goroutine has ended. A job must not close its own queue: Close would wait for it. Close may be
// called again and waits as well; closing the zero Queue does nothing.
func (q *Queue) Close() { q.close() }

// validateCapacity checks the number of permits that a bucket is to hold.
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
