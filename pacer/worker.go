package pacer

import (
	"context"
	"sync"
	"time"
)

// A worker is the goroutine of a Queue or TokenQueue. It admits callers when their time has come, and runs jobs one at
// a time.
type worker struct {
	queue *callerQueue
	// alarm receives the instant at which to wake up. Its buffer holds the latest instant.
	alarm chan int64
	// jobs holds the job to run next.
	jobs chan *waiter
	// busy is set while a job runs or is in jobs. The queue's mu guards it.
	busy bool
	// exited is set when a job ends the worker's goroutine. Only that goroutine uses it.
	exited bool

	// running is the context that ends when close is called. It ends the context of the running job.
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
		if k.exited { // a job has ended this goroutine, so the next jobs need a new one
			k.exited = false
			go k.loop()
			return
		}
		close(k.stopped)
	}()
	timer := time.NewTimer(0)
	timer.Stop() // the first alarm starts it
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

// run runs one job. The next caller passes when the units of the job have flowed out, or when the job ends if that is
// later. Callers behind it do not make up for the delay.
func (k *worker) run(w *waiter) {
	w.job.run(k.running, k.queue, w.n, func(took time.Duration, exited bool) { k.jobEnded(w, took, exited) })
}

// jobEnded admits the next callers after a job has ended.
func (k *worker) jobEnded(w *waiter, took time.Duration, exited bool) {
	q := k.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	_, now := q.clock()
	k.busy = false
	if exited {
		k.exited = true
		q.timekeeper = nil // the timer ended with the goroutine, so admitDue sets an alarm for the new one
	}
	if end := w.at + int64(took); q.headState.free.ns < end {
		q.moveUp(end)
	}
	q.admitDue(now)
}

// close rejects all waiting callers, stops the worker and waits for it. It does nothing if there is no worker.
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
	case w := <-k.jobs: // the worker stopped before it could run this job
		w.job.reject(ErrClosed)
	default:
	}
	k.watches.Wait()
}
