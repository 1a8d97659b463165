package pacer

import (
	"context"
	"sync"
	"time"
)

// A worker is the goroutine of a Queue or TokenQueue: it wakes up when the next caller may pass, and runs jobs one at a
// time.
type worker struct {
	queue *callerQueue
	// alarm receives the instant to wake up at. Its buffer holds one instant, the latest.
	alarm chan int64
	// jobs holds the job to run next.
	jobs chan *waiter
	// busy is set from the time at which a job may run until the job has ended. The queue's mu guards it.
	busy bool
	// exited is set when a job ends the worker's goroutine. Only that goroutine uses it.
	exited bool

	// running is cancelled by close, and cancels the context of the running job.
	running context.Context
	stop    context.CancelFunc
	stopped chan struct{}
	// watches counts the jobs whose contexts are watched.
	watches sync.WaitGroup
}

// startWorker creates and starts the worker of q.
func (q *callerQueue) startWorker() {
	k := &worker{queue: q, alarm: make(chan int64, 1), jobs: make(chan *waiter, 1), stopped: make(chan struct{})}
	k.running, k.stop = context.WithCancel(context.Background())
	q.worker = k
	go k.loop()
}

func (k *worker) loop() {
	defer func() {
		if k.exited { // a job has ended this goroutine; the next jobs need another
			k.exited = false
			go k.loop()
			return
		}
		close(k.stopped)
	}()
	timer := time.NewTimer(0)
	timer.Stop() // until there is an alarm
	defer timer.Stop()
	for {
		select {
		case <-k.running.Done():
			return
		case wakeAt := <-k.alarm:
			timer.Reset(time.Duration(wakeAt) - k.queue.since(0))
		case <-timer.C:
			k.queue.tick()
		case w := <-k.jobs:
			k.run(w)
		}
	}
}

// start passes a job to the worker. The queue's mu must be held, and the worker must not be busy.
func (k *worker) start(w *waiter) {
	k.busy = true
	k.jobs <- w
}

// run runs one job. The next caller passes after the time of the job's size, or when the job ends if that is later:
// later callers are not sent closer together to make up for it.
func (k *worker) run(w *waiter) {
	w.job.run(k.running, k.queue, w.n, func(took time.Duration, exited bool) { k.jobEnded(w, took, exited) })
}

// jobEnded lets the next callers pass when a job has ended.
func (k *worker) jobEnded(w *waiter, took time.Duration, exited bool) {
	q := k.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	_, now := q.clock()
	k.busy = false
	if exited {
		k.exited = true
		q.timekeeper = nil // the timer ends with the goroutine; admitDue sets an alarm for the next one
	}
	if end := w.at + int64(took); q.headState.free.ns < end {
		q.moveUp(end)
	}
	q.admitDue(now)
}

// close rejects all waiting callers, stops the worker and waits for it. A queue without a worker needs no close.
func (q *callerQueue) close() {
	k := q.worker
	if k == nil {
		return
	}
	q.mu.Lock()
	q.closed = true
	for q.first != nil {
		q.reject(q.first, ErrClosed)
	}
	q.mu.Unlock()

	k.stop()
	<-k.stopped
	select {
	case w := <-k.jobs: // ready, but the worker stopped before it could run it
		w.job.end(ErrClosed)
	default:
	}
	k.watches.Wait()
}
