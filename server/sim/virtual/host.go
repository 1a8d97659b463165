package virtual

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// A Host is a process on its own machine. It has a clock, and it can crash. It implements clock.Scheduler.
//
// The timers of a host are exact, even if its clock is ahead. The differences between two readings of its clock are
// exact too, because programs measure durations with the monotonic clock.
type Host struct {
	Name    string
	start   time.Time // its time of day when the loop started
	loop    *Loop
	waiting []*task
	crashed bool
}

var _ clock.Scheduler = (*Host)(nil)

// NewHost returns a host whose time of day is ahead of the time of the loop by the given duration.
func (l *Loop) NewHost(name string, ahead time.Duration) *Host {
	return &Host{Name: name, start: Epoch.Add(ahead), loop: l}
}

// Crash ends the host. From now on only deferred calls of its functions run, and they have no effect on other hosts.
func (h *Host) Crash() {
	h.crashed = true
	for _, t := range h.waiting {
		t.stop()
		delete(h.loop.tasks, t)
	}
	h.waiting = nil
}

// Crashed reports whether the host has crashed.
func (h *Host) Crashed() bool { return h.crashed }

// Now returns the time of day of the host.
func (h *Host) Now() time.Time { return h.start.Add(h.loop.Now()) }

// Since returns the time since t, a reading of the clock.
func (h *Host) Since(t time.Time) time.Duration { return h.Now().Sub(t) }

// AfterFunc runs a function in a goroutine of the host after d.
func (h *Host) AfterFunc(d time.Duration, run func()) clock.Timer {
	t := &timer{event: event{host: h, run: run}}
	t.Reset(d)
	return t
}

// NewTimer returns a timer with a channel.
func (h *Host) NewTimer(d time.Duration) clock.Timer {
	t := &timer{event: event{host: h, signal: true}, fired: make(chan time.Time, 1)}
	t.event.run = func() { t.fired <- h.Now() }
	t.Reset(d)
	return t
}

// Go runs a function in a goroutine of the host, after the current event.
func (h *Host) Go(run func()) {
	if !h.crashed {
		h.loop.addOnce(0, run, h)
	}
}

// Run runs a function in a goroutine of the host immediately, and returns when the function waits or ends. A goroutine
// of a host must not call it.
func (h *Host) Run(run func()) {
	if h.crashed {
		return
	}
	h.loop.start(h, run)
	h.wake()
}

// wake runs the goroutines whose wait has ended, in the order in which they began to wait.
func (h *Host) wake() {
	for i := 0; i < len(h.waiting); {
		t := h.waiting[i]
		if !t.isReady() {
			i++
			continue
		}
		h.resume(i)
		i = 0 // others may be ready now
	}
}

// resume lets the goroutine waiting[i] run.
func (h *Host) resume(i int) {
	t := h.waiting[i]
	h.waiting = slices.Delete(h.waiting, i, i+1)
	t.ready, t.sleep.ctx = nil, nil
	h.loop.enter(t)
}

// endSleep lets a goroutine run after its sleep. Then it runs the other goroutines whose wait has ended because of it.
func (h *Host) endSleep(t *task) {
	h.resume(slices.Index(h.waiting, t))
	h.wake()
}

// Wait lets other goroutines run until ready returns true. Only events of this host may change the result of ready.
func (h *Host) Wait(ready func() bool) {
	if ready() {
		return
	}
	t := h.currentTask()
	t.ready = ready
	h.yield(t)
}

// currentTask returns the running task, which must belong to this host.
func (h *Host) currentTask() *task {
	t := h.loop.current
	if t == nil || t.host != h {
		panic("virtual: Wait outside of a goroutine of host " + h.Name)
	}
	if h.crashed {
		panic(stopped{})
	}
	return t
}

// yield lets other tasks run until t is ready.
func (h *Host) yield(t *task) {
	h.waiting = append(h.waiting, t)
	if !t.yield(struct{}{}) {
		panic(stopped{})
	}
}

// Sleep waits for d, or until ctx ends. It returns the error of ctx, or nil if ctx has not ended.
func (h *Host) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); d <= 0 || err != nil {
		return err
	}
	t := h.currentTask()
	t.sleep.ctx, t.sleep.end.host = ctx, h
	h.loop.add(d, &t.sleep.end)
	h.yield(t)
	t.sleep.end.seq = 0
	return ctx.Err()
}

// Data returns the value that SetData set for the current goroutine, or nil.
func (l *Loop) Data() any {
	if l.current == nil {
		return nil
	}
	return l.current.data
}

// SetData sets a value of the current goroutine.
func (l *Loop) SetData(data any) { l.current.data = data }

type timer struct {
	event event
	fired chan time.Time // nil for AfterFunc
}

// C implements clock.Timer.
func (t *timer) C() <-chan time.Time { return t.fired }

// Stop implements clock.Timer.
func (t *timer) Stop() bool {
	pending := t.event.seq != 0
	t.event.seq = 0
	return pending
}

// Reset implements clock.Timer.
func (t *timer) Reset(d time.Duration) bool {
	pending := t.Stop()
	t.event.host.loop.add(d, &t.event)
	return pending
}
