package virtual

import (
	"context"
	"iter"
)

// A task is a goroutine that runs functions of hosts, one after the other. Only one task runs at a time: the loop
// resumes it, and it yields when it has to wait.
type task struct {
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool

	host  *Host
	run   func()
	ended bool
	ready func() bool // reports whether its wait has ended; nil while it runs or sleeps
	sleep sleep
	data  any
}

// A sleep is the state of Host.Sleep.
type sleep struct {
	end event           // pending while the task sleeps
	ctx context.Context // ends the sleep early; nil while the task does not sleep
}

// isReady reports whether a waiting task can continue.
func (t *task) isReady() bool {
	if t.sleep.ctx != nil {
		return t.sleep.end.seq == 0 || t.sleep.ctx.Err() != nil
	}
	return t.ready()
}

// stopped is the panic that unwinds a task whose host has crashed.
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

// call runs the function of the task. If the panic stopped unwinds the function, call returns normally.
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
	before := l.current
	l.current = t
	t.resume()
	l.current = before
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
