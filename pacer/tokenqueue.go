package pacer

import (
	"context"
	"time"
)

// TokenQueue is the classic pair of producer and consumers: a producer puts tokens into a bounded queue at a fixed rate,
// consumers take them out, and those who find too few wait in line. While the queue is full nothing is produced. In any
// length of time t at most capacity + rate·t tokens are scheduled to be taken, and, unlike with [Bursty], nobody gets
// tokens that have not been produced yet. Consumers who are overdue, because the machine was busy, go together.
//
// The producer goes by the time that has passed, not by counting ticks: one that wakes late produces what it missed, and
// it sleeps while nobody waits.
//
// Most callers want [TokenQueue.Acquire]. The producer is one goroutine, until [TokenQueue.Close]. The methods of the
// zero TokenQueue return ErrUninitialized or false. It is safe for concurrent use.
type TokenQueue struct {
	line   line
	bucket bucket
}

var _ Pacer = (*TokenQueue)(nil)

// TokenQueueOptions are the options of [NewTokenQueue].
type TokenQueueOptions struct {
	// Rate is how many tokens the producer makes. There is no default.
	Rate Rate
	// Capacity is how many tokens the queue holds, and so the most that can be taken at once. There is no default.
	Capacity int64
	// StartFull starts with a full queue. The default is an empty one, whose first token comes one interval later.
	StartFull bool
}

// NewTokenQueue returns a queue and starts its producer; Close ends it.
func NewTokenQueue(o TokenQueueOptions) (*TokenQueue, error) {
	if err := o.Rate.validate(); err != nil {
		return nil, err
	}
	b := newBucket(o.Rate)
	if err := validCapacity(&b, o.Capacity, o.Rate); err != nil {
		return nil, err
	}
	b.prepaid = true
	b.room = b.roomFor(o.Capacity)
	q := &TokenQueue{bucket: b, line: line{epoch: time.Now(), most: o.Capacity}}
	q.line.sched = &q.bucket
	if o.StartFull {
		q.line.head.saved = b.room
	}
	q.line.keep()
	return q, nil
}

// Acquire takes n tokens, waiting in line until they are there. It returns how long it waited.
//
// If ctx has a deadline before the tokens will be there it returns a [*DeadlineError] at once; if n is above the
// capacity, ErrNever. If ctx is cancelled while it waits it returns ctx's error, and if the queue is closed, ErrClosed.
// With an error it has taken nothing.
func (q *TokenQueue) Acquire(ctx context.Context, n int64) (waited time.Duration, err error) {
	return q.line.acquire(ctx, n)
}

// TryAcquire takes n tokens and returns true, waiting in line for at most timeout. If they will not be there by then it
// returns false at once and takes nothing, as it does if the queue is closed or if n is less than 1 or above the capacity.
func (q *TokenQueue) TryAcquire(n int64, timeout time.Duration) bool {
	return q.line.tryAcquire(n, timeout)
}

// Reserve takes n tokens for the time when they are there, and doesn't wait for it. See [Reservation] for what is
// promised. If n is above the capacity it is not OK, with ErrNever; if the queue is closed, with ErrClosed.
func (q *TokenQueue) Reserve(n int64) Reservation { return q.line.reserve(n) }

// Available returns how many tokens are in the queue. While somebody is in line, they are for the first there.
func (q *TokenQueue) Available() int64 {
	l := &q.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sched == nil {
		return 0
	}
	_, now := l.clock()
	l.settle(now)
	return q.bucket.permitsIn(q.bucket.advance(l.head, now).saved)
}

// Close stops the producer, sends those who wait away with ErrClosed, and returns when the producer has ended. Closing
// again is fine and waits as well; closing the zero TokenQueue does nothing.
func (q *TokenQueue) Close() { q.line.close() }
