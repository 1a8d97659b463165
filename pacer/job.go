package pacer

import (
	"context"
	"time"
)

// A job is the work of one item that was submitted to a Queue.
type job struct {
	ctx    context.Context
	do     func(context.Context) error
	result chan error
	// unwatch stops watching ctx; it may be called several times.
	unwatch func()
}

// watch removes the job's item from the queue when its context is cancelled. The queue's mu must be held.
func (k *worker) watch(w *waiter) {
	j, q := w.job, k.queue
	if j.ctx.Done() == nil {
		j.unwatch = func() {}
		return
	}
	k.watches.Add(1)
	stop := context.AfterFunc(j.ctx, func() {
		defer k.watches.Done()
		if q.withdraw(w) {
			j.result <- contextError(j.ctx, w.n)
		}
	})
	j.unwatch = func() {
		if stop() {
			k.watches.Done()
		}
	}
}

// run runs the job unless its context or the worker's has ended, sends the result, and calls ended with the time it
// took. If the job exits the goroutine, run does both while the goroutine ends. A panic of the job is not
// recovered: the program crashes with the job's stack.
func (j *job) run(running context.Context, q *callerQueue, size int64, ended func(took time.Duration, exited bool)) {
	j.unwatch()
	switch {
	case running.Err() != nil:
		j.result <- ErrClosed
		ended(0, false)
		return
	case j.ctx.Err() != nil:
		j.result <- contextError(j.ctx, size)
		ended(0, false)
		return
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(running, cancel)()
	start := q.since(0)
	err, exited := ErrJobExited, true
	defer func() {
		if exited {
			if cause := recover(); cause != nil {
				panic(cause)
			}
		}
		took := q.since(int64(start))
		j.result <- err
		ended(took, exited)
	}()
	err = j.do(ctx)
	exited = false
}

// end reports that the job will not be run.
func (j *job) end(err error) {
	j.unwatch()
	j.result <- err
}
