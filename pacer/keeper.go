package pacer

import (
	"context"
	"sync"
	"time"
)

// keeper is the goroutine of a Queue or TokenQueue: it keeps the time for those in line, in their stead, and runs jobs
// one at a time.
type keeper struct {
	line *line
	// alarm tells until when to sleep; it holds one instant, the latest.
	alarm chan int64
	// jobs holds the one that is due.
	jobs chan *place
	// busy is set from when a job is due until it has ended. Guarded by the line's mu.
	busy bool
	// exited is set when a job ends the keeper's goroutine. Only that goroutine uses it.
	exited bool

	// running is cancelled by close; it is what the running job's context hears.
	running context.Context
	stop    context.CancelFunc
	stopped chan struct{}
	// watches counts the jobs whose contexts are still watched.
	watches sync.WaitGroup
}

// keep gives l a keeper and starts it.
func (l *line) keep() {
	k := &keeper{line: l, alarm: make(chan int64, 1), jobs: make(chan *place, 1), stopped: make(chan struct{})}
	k.running, k.stop = context.WithCancel(context.Background())
	l.keeper = k
	go k.work()
}

func (k *keeper) work() {
	defer func() {
		if k.exited { // the job before this is to blame, and those behind it are not
			k.exited = false
			go k.work()
			return
		}
		close(k.stopped)
	}()
	timer := time.NewTimer(0)
	timer.Stop() // until there is an alarm to set
	defer timer.Stop()
	for {
		select {
		case <-k.running.Done():
			return
		case due := <-k.alarm:
			timer.Reset(time.Duration(due) - k.line.since(0))
		case <-timer.C:
			k.line.tick()
		case p := <-k.jobs:
			k.run(p)
		}
	}
}

// hand gives the keeper a job that is due. Called with the line's mu held, and only while the keeper is not busy.
func (k *keeper) hand(p *place) {
	k.busy = true
	k.jobs <- p
}

// run runs one job. Its turn lasts as long as its size says, and if the job takes longer, as long as that: the time it
// overran is lost to the queue, not made up for by sending the next ones closer together.
func (k *keeper) run(p *place) {
	p.job.run(k.running, k.line, p.n, func(took time.Duration, exited bool) { k.over(p, took, exited) })
}

// over lets those in line go on when a job has ended.
func (k *keeper) over(p *place, took time.Duration, exited bool) {
	l := k.line
	l.mu.Lock()
	defer l.mu.Unlock()
	_, now := l.clock()
	k.busy = false
	if exited {
		k.exited = true
		l.lead = nil // the timer ends with the goroutine; settle sets an alarm for the next one
	}
	if end := p.at + int64(took); l.head.free.ns < end {
		l.shift(end)
	}
	l.settle(now)
}

// close sends everybody in line away, stops the keeper and waits for it. A line without a keeper has nothing to close.
func (l *line) close() {
	k := l.keeper
	if k == nil {
		return
	}
	l.mu.Lock()
	l.closed = true
	for l.first != nil {
		l.dismiss(l.first, ErrClosed)
	}
	l.mu.Unlock()

	k.stop()
	<-k.stopped
	select {
	case p := <-k.jobs: // due, but the keeper stopped before it could start it
		p.job.end(ErrClosed)
	default:
	}
	k.watches.Wait()
}
