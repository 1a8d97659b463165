package pacer

import (
	"context"
	"time"
)

// A job is the function of one item that was submitted to a Queue.
type job struct {
	ctx    context.Context
	do     func(context.Context) error
	result chan error // receives one error; its buffer has room for it
	// stopWatching stops watching ctx; it may be called several times.
	stopWatching func()
}

// watch makes sure that the job's item leaves the queue when the job's context ends. The queue's mu must be held.
func (k *worker) watch(w *waiter) {
	j, q := w.job, k.queue
	if j.ctx.Done() == nil {
		j.stopWatching = func() {}
		return
	}
	k.watches.Add(1)
	stop := context.AfterFunc(j.ctx, func() {
		defer k.watches.Done()
		if q.withdraw(w) {
			j.result <- contextError(j.ctx, w.n)
		}
	})
	j.stopWatching = func() {
		if stop() {
			k.watches.Done()
		}
	}
}

// run runs the job unless its context or the worker's has ended. Then it sends the result and calls onEnd with the time
// that the job took, even if the job exits the goroutine. A panic of the job crashes the program.
func (j *job) run(workerCtx context.Context, q *callerQueue, size int64, onEnd func(took time.Duration, exited bool)) {
	j.stopWatching()
	switch {
	case workerCtx.Err() != nil:
		j.result <- ErrClosed
		onEnd(0, false)
		return
	case j.ctx.Err() != nil:
		j.result <- contextError(j.ctx, size)
		onEnd(0, false)
		return
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(workerCtx, cancel)()
	start := q.since(0)
	err, exited := ErrJobExited, true
	defer func() {
		if exited { // the job has called Goexit or panicked; after a panic, no result is sent
			if cause := recover(); cause != nil {
				panic(cause)
			}
		}
		took := q.since(int64(start))
		j.result <- err
		onEnd(took, exited)
	}()
	err = j.do(ctx)
	exited = false
}

// reject sends err as the result of a job that will not run.
func (j *job) reject(err error) {
	j.stopWatching()
	j.result <- err
}
