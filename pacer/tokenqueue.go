package pacer

import (
	"time"
)

// TokenQueue is the classic pair of producer and consumers: a producer puts tokens into a bounded queue at a fixed
// rate, consumers take them out, and consumers that find too few wait in order. While the queue is full nothing is
// produced. In any length of time t at most capacity + rate·t tokens are scheduled to be taken, and, unlike with
// [Bursty], no consumer gets tokens that have not been produced yet. Consumers that are overdue, because the machine
// was busy, pass together.
//
// The producer uses the elapsed time instead of counting ticks. If it wakes up late, it produces the missing
// tokens. It sleeps while no consumer waits.
//
// Most callers want [TokenQueue.Acquire]. The producer is one goroutine, until [TokenQueue.Close]. The methods of the
// zero TokenQueue return ErrUninitialized or false. It is safe for concurrent use.
type TokenQueue struct {
	callerQueue
	bucket bucket
}

var _ Pacer = (*TokenQueue)(nil)

// TokenQueueOptions are the options of [NewTokenQueue].
type TokenQueueOptions struct {
	// Rate is the rate of the producer. There is no default.
	Rate Rate
	// Capacity is the maximum number of tokens in the queue, and so of tokens that can be taken together. There
	// is no default.
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
	q := &TokenQueue{bucket: b, callerQueue: callerQueue{epoch: time.Now(), maxPermits: o.Capacity}}
	q.sched = &q.bucket
	if o.StartFull {
		q.headState.saved = b.maxSaved
	}
	q.startWorker()
	return q, nil
}

// Available returns the number of tokens in the queue. While consumers wait, the tokens are for the first of them.
func (q *TokenQueue) Available() int64 {
	return q.measure(func(now int64) int64 { return q.bucket.permitsIn(q.bucket.advance(q.headState, now).saved) })
}

// Close stops the producer, rejects waiting consumers with ErrClosed, and returns when the producer has ended. Close
// may be called again and waits as well; closing the zero TokenQueue does nothing.
func (q *TokenQueue) Close() { q.close() }
