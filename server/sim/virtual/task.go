package virtual

import (
	"context"
	"iter"
)

// A task is a goroutine that runs functions of hosts, one after the other. Only one task runs at a time. The Loop calls
// resume, which returns when the task calls yield to wait, or when the function has returned. A task whose function has
// returned is reused for another function.
type task struct {
	resume func() (struct{}, bool) // runs the task until it waits or ends; from iter.Pull, like stop and yield
	stop   func()                  // ends the goroutine
	yield  func(struct{}) bool     // called by the task to wait; returns when the Loop resumes it

	host  *Host
	run   func()
	ended bool
	ready func() bool // reports whether the task can continue; nil while it runs or sleeps
	sleep sleep
	data  any // set by Loop.SetData
}

// A sleep is the state of a call of Host.Sleep.
type sleep struct {
	end event           // ends the sleep at its time; end.seq is 0 unless the event is pending
	ctx context.Context // ends the sleep early; nil while the task does not sleep
}

// isReady reports whether a waiting task can continue.
func (t *task) isReady() bool {
	if t.sleep.ctx != nil {
		return t.sleep.end.seq == 0 || t.sleep.ctx.Err() != nil
	}
	return t.ready()
}

// A task whose host has crashed panics with stopped, to leave the function that it runs.
type stopped struct{}

func (l *Loop) newTask() *task {
	t := new(task)
	t.sleep.end.task = t
	t.resume, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		for ok := true; ok; ok = yield(struct{}{}) {
			t.call()
			t.ended = true
		}
	})
	l.tasks[t] = struct{}{}
	return t
}

// call runs the function of the task. It returns normally if the function panics with stopped.
func (t *task) call() {
	defer func() {
		if r := recover(); r != nil && r != (stopped{}) {
			panic(r)
		}
	}()
	t.run()
}

// enter lets a task run until it waits or ends.
func (l *Loop) enter(t *task) {
	previous := l.current
	l.current = t
	t.resume()
	l.current = previous
	if t.ended {
		t.host, t.run, t.data = nil, nil, nil
		l.idle = append(l.idle, t)
	}
}

// start runs a function of a host in a task.
func (l *Loop) start(h *Host, run func()) {
	var t *task
	if last := len(l.idle) - 1; last >= 0 {
		t = l.idle[last]
		l.idle = l.idle[:last]
	} else {
		t = l.newTask()
	}
	t.host, t.run, t.ended = h, run, false
	l.enter(t)
}
