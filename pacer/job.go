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

// run runs the job unless its context or the keeper's has ended, reports the result, and returns how long it took.
func (j *job) run(running context.Context, l *line, size int64) time.Duration {
	j.unwatch()
	switch {
	case running.Err() != nil:
		j.result <- ErrClosed
		return 0
	case j.ctx.Err() != nil:
		j.result <- gaveUp(j.ctx, size)
		return 0
	}
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(running, cancel)()
	start := l.since(0)
	err := j.do(ctx)
	took := l.since(int64(start))
	j.result <- err
	return took
}

// end reports that the job will not be run.
func (j *job) end(err error) {
	j.unwatch()
	j.result <- err
}
