package pacer

import (
	"context"
	"time"
)

// Queue is a leaky bucket with a queue: what comes in bursts goes out at a constant rate, strictly in the order in which
// it came. It is bounded. What doesn't fit is refused at once, so a caller never waits longer than the queue is deep.
//
// An item has a size in units. An item that finds the queue idle goes at once; the next one goes when the units of the
// items before it have flowed out. Idle time is not saved: there are no bursts. The outflow is exact. Items that went
// out a little late, because the machine was busy, do not delay those behind them.
//
// Most callers want [Queue.Wait]. One goroutine serves the queue until [Queue.Close]. The methods of the zero Queue
// return ErrUninitialized. It is safe for concurrent use.
type Queue struct {
	line line
}

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

// Wait waits for the turn of an item of the given size. It returns how long it waited. It returns at once and takes
// nothing
//
//   - with ErrQueueFull, if the item doesn't fit behind those that are waiting,
//   - with a [*DeadlineError], if the turn comes after ctx's deadline,
//   - with ErrNever, if size is above the queue's capacity.
//
// If ctx is cancelled while the item waits, it leaves the queue, those behind it move up, and Wait returns ctx's error.
func (q *Queue) Wait(ctx context.Context, size int64) (waited time.Duration, err error) {
	return q.line.acquire(ctx, size)
}

// Submit leaves an item in the queue whose job the queue's goroutine will run when its turn comes, one job at a time. It
// returns at once, with the errors of [Queue.Wait] if it doesn't take the item.
//
// The channel delivers one error and needs no reader: what the job returned, ErrClosed if the queue was closed before
// its turn, or ctx's error if that was cancelled before. The job's context is ctx, cancelled as well by Close. A job that
// takes longer than its size flows out holds up those behind it, and they are not sent closer together afterwards. A job
// may submit to its own queue, but must not wait for it: it would wait for itself.
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

// Waiting returns how many units are waiting, from 0 to the capacity.
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
