package pacer

import (
	"time"
)

// TokenQueue is a bounded queue of tokens. A producer adds tokens at a fixed rate while the queue is not full, and
// consumers take them. If there are too few tokens, consumers wait in order. In any time t, at most capacity + rate·t
// tokens are scheduled. Unlike with [Bursty], no consumer gets tokens that have not been produced yet. If the machine
// is busy, all consumers whose time has passed are admitted together.
//
// The number of tokens depends on the elapsed time, so a producer that wakes up late adds the missing tokens. It sleeps
// while no consumer waits.
//
// Most callers want [TokenQueue.Acquire]. The producer is a goroutine, which runs until [TokenQueue.Close]. The methods
// of the zero TokenQueue return ErrUninitialized or false. It is safe for concurrent use.
type TokenQueue struct {
	callerQueue
	bucket bucket
}

var _ Pacer = (*TokenQueue)(nil)

// TokenQueueOptions are the options of [NewTokenQueue].
type TokenQueueOptions struct {
	// Rate is the rate of the producer. There is no default.
	Rate Rate
	// Capacity is the maximum number of tokens in the queue. A consumer cannot take more at once. There is no default.
	Capacity int64
	// StartFull makes the queue start full. By default it starts empty, and the first token comes after one interval.
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

// Available returns the number of tokens in the queue. If consumers wait, these tokens are for the first of them.
func (q *TokenQueue) Available() int64 {
	return q.evaluate(func(now int64) int64 { return q.bucket.permitsIn(q.bucket.advance(q.headState, now).saved) })
}

// Close stops the producer, rejects waiting consumers with ErrClosed, and returns when the producer has ended. Close
// may be called several times; each call waits. Closing the zero TokenQueue does nothing.
func (q *TokenQueue) Close() { q.close() }
