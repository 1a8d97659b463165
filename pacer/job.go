package pacer

import (
	"context"
	"time"
)

// job is the work of one item that was submitted to a Queue.
type job struct {
	ctx    context.Context
	do     func(context.Context) error
	result chan error
	// unwatch stops watching ctx; it may be called more than once.
	unwatch func()
}

// watch makes the job's item leave the line when its context is cancelled. Called with the line's mu held.
func (k *keeper) watch(p *place) {
	j, l := p.job, k.line
	if j.ctx.Done() == nil {
		j.unwatch = func() {}
		return
	}
	k.watches.Add(1)
	stop := context.AfterFunc(j.ctx, func() {
		defer k.watches.Done()
		if l.giveUp(p) {
			j.result <- gaveUp(j.ctx, p.n)
		}
	})
	j.unwatch = func() {
		if stop() {
			k.watches.Done()
		}
	}
}

// run runs the job unless its context or the keeper's has ended, reports the result, and tells over how long it took. A
// job that exits the goroutine is told of as well, while the goroutine ends. One that panics is not: nobody can recover
// from that here, and the program crashes with the job's stack as if nobody had looked.
func (j *job) run(running context.Context, l *line, size int64, over func(took time.Duration, exited bool)) {
	j.unwatch()
	switch {
	case running.Err() != nil:
		j.result <- ErrClosed
		over(0, false)
		return
	case j.ctx.Err() != nil:
		j.result <- gaveUp(j.ctx, size)
		over(0, false)
		return
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(running, cancel)()
	start := l.since(0)
	err, exited := ErrJobExited, true
	defer func() {
		if exited {
			if cause := recover(); cause != nil {
				panic(cause)
			}
		}
		took := l.since(int64(start))
		j.result <- err
		over(took, exited)
	}()
	err = j.do(ctx)
	exited = false
}

// end reports that the job will not be run.
func (j *job) end(err error) {
	j.unwatch()
	j.result <- err
}
