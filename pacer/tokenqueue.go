package pacer

import (
	"context"
	"time"
)

// TokenQueue is the classic pair of producer and consumers: a producer puts tokens into a bounded queue at a fixed
// rate, consumers take them out, and consumers that find too few wait in order. While the queue is full nothing is
// produced. In any length of time t at most capacity + rate·t tokens are scheduled to be taken, and, unlike with
// [Bursty], no consumer gets tokens that have not been produced yet. Overdue consumers, because the machine was busy,
// pass together.
//
// The producer uses the elapsed time instead of counting ticks: if it wakes late it produces what it missed, and it
// sleeps while no consumer waits.
//
// Most callers want [TokenQueue.Acquire]. The producer is one goroutine, until [TokenQueue.Close]. The methods of the
// zero TokenQueue return ErrUninitialized or false. It is safe for concurrent use.
type TokenQueue struct {
	queue  callerQueue
	bucket bucket
}

var _ Pacer = (*TokenQueue)(nil)

// TokenQueueOptions are the options of [NewTokenQueue].
type TokenQueueOptions struct {
	// Rate is the rate of the producer. There is no default.
	Rate Rate
	// Capacity limits the tokens in the queue, and thus the most that can be taken at once. There is no default.
	Capacity int64
	// StartFull starts with a full queue. By default it is empty, and the first token comes one interval later.
	StartFull bool
}

// NewTokenQueue returns a queue and starts its producer; Close ends it.
func NewTokenQueue(o TokenQueueOptions) (*TokenQueue, error) {
	if err := o.Rate.validate(); err != nil {
		return nil, err
	}
	b := newBucket(o.Rate)
	if err := validateCapacity(&b, o.Capacity, o.Rate); err != nil {
		return nil, err
	}
	b.prepaid = true
	b.maxSaved = b.timeFor(o.Capacity)
	q := &TokenQueue{bucket: b, queue: callerQueue{epoch: time.Now(), maxCount: o.Capacity}}
	q.queue.sched = &q.bucket
	if o.StartFull {
		q.queue.head.saved = b.maxSaved
	}
	q.queue.startWorker()
	return q, nil
}

// Acquire takes n tokens, and waits until they are available. It returns how long it waited.
//
// If ctx has a deadline before the tokens are available it returns a [*DeadlineError] at once; if n is above the
// capacity, ErrNever. If ctx is cancelled while it waits it returns ctx's error, and if the queue is closed, ErrClosed.
// With an error it has taken nothing.
func (q *TokenQueue) Acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	return q.queue.acquire(ctx, n)
}

// TryAcquire takes n tokens and returns true, after waiting for at most timeout. If the wait would be longer it returns
// false at once and takes nothing, as it does if the queue is closed or if n is less than 1 or above the capacity.
func (q *TokenQueue) TryAcquire(n int64, timeout time.Duration) bool {
	return q.queue.tryAcquire(n, timeout)
}

// Reserve takes n tokens for the time when they are available, without waiting for it. See [Reservation] for its
// guarantees. If n is above the capacity it is not OK, with ErrNever; if the queue is closed, with ErrClosed.
func (q *TokenQueue) Reserve(n int64) Reservation { return q.queue.reserve(n) }

// Available returns the number of tokens in the queue. While consumers wait, the tokens are for the first of them.
func (q *TokenQueue) Available() int64 {
	l := &q.queue
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sched == nil {
		return 0
	}
	_, now := l.clock()
	l.grantDue(now)
	return q.bucket.permitsIn(q.bucket.advance(l.head, now).saved)
}

// Close stops the producer, rejects waiting consumers with ErrClosed, and returns when the producer has ended. Close
// may be called again and waits as well; closing the zero TokenQueue does nothing.
func (q *TokenQueue) Close() { q.queue.close() }
