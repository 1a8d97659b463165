package virtual

import (
	"sync/atomic"
	"time"
)

// Epoch is the time of day at which a Loop starts.
var Epoch = time.Unix(1_700_000_000, 0)

// A Loop runs events in the order of their times. Events of the same time run in the order in which they were added.
// Only the goroutine that runs the loop, and the events themselves, may call its methods and the methods of its hosts.
type Loop struct {
	now     atomic.Int64 // ns since Epoch; goroutines of stores read it
	seq     uint64
	queue   []entry // a heap
	current *task
	idle    []*task
	tasks   map[*task]struct{}
	events  int64
	spare   []*event // events of After and Go that can be used again
}

// NewLoop returns a Loop without events. Close ends it.
func NewLoop() *Loop { return &Loop{tasks: make(map[*task]struct{})} }

// An entry is a pending event. It is copied when the heap changes.
type entry struct {
	at    int64
	seq   uint64
	event *event
}

// An event happens at a time: a function runs, or the sleep of a task ends. It may happen again later.
type event struct {
	seq    uint64 // seq of its entry, or 0 if it is not pending; entries of the event with another seq are ignored
	run    func()
	host   *Host // host whose goroutine calls run; nil if the loop calls it
	task   *task // the task that sleeps; nil for other events
	signal bool  // run does not block, and needs no goroutine of the host
	once   bool  // nobody refers to the event after it has happened
}

// Now returns the time since the loop started.
func (l *Loop) Now() time.Duration { return time.Duration(l.now.Load()) }

// Time returns the time of day.
func (l *Loop) Time() time.Time { return Epoch.Add(l.Now()) }

// Events returns the number of events that have run.
func (l *Loop) Events() int64 { return l.events }

// After runs a function after d. The function must not block.
func (l *Loop) After(d time.Duration, run func()) { l.addOnce(d, run, nil) }

// addOnce adds an event that cannot be stopped.
func (l *Loop) addOnce(d time.Duration, run func(), h *Host) {
	var e *event
	if last := len(l.spare) - 1; last >= 0 {
		e = l.spare[last]
		l.spare = l.spare[:last]
	} else {
		e = &event{once: true}
	}
	e.run, e.host = run, h
	l.add(d, e)
}

// add schedules an event after d. If the event is already pending, add changes its time.
func (l *Loop) add(d time.Duration, e *event) {
	l.seq++
	e.seq = l.seq
	l.push(entry{l.now.Load() + int64(max(d, 0)), l.seq, e})
}

// Step runs the next event whose time is at or before until. If there is none, it moves the time to until and returns
// false.
func (l *Loop) Step(until time.Duration) bool {
	for len(l.queue) > 0 && l.queue[0].at <= int64(until) {
		next := l.pop()
		if next.event.seq != next.seq {
			continue
		}
		next.event.seq = 0
		l.now.Store(next.at)
		l.events++
		l.happen(next.event)
		return true
	}
	l.now.Store(max(l.now.Load(), int64(until)))
	return false
}

// happen runs the function of an event, or ends the sleep of its task.
func (l *Loop) happen(e *event) {
	run, h := e.run, e.host
	if e.once {
		e.run, e.host = nil, nil
		l.spare = append(l.spare, e)
	}
	switch {
	case h == nil:
		run()
	case e.task != nil:
		if !h.crashed {
			h.endSleep(e.task)
		}
	case !e.signal:
		h.Run(run)
	case !h.crashed:
		run()
		h.wake()
	}
}

// Close ends all goroutines of the loop.
func (l *Loop) Close() {
	for t := range l.tasks {
		t.stop()
	}
	clear(l.tasks)
	l.queue, l.idle, l.spare = nil, nil, nil
}

// heapWidth is the number of children of a heap entry. A heap with 4 children per entry has fewer levels than one with
// 2. So it is faster to add entries, because most of them stay near the end.
const heapWidth = 4

func (e *entry) before(other *entry) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}

func (l *Loop) push(e entry) {
	l.queue = append(l.queue, e)
	i := len(l.queue) - 1
	for i > 0 {
		parent := (i - 1) / heapWidth
		if !e.before(&l.queue[parent]) {
			break
		}
		l.queue[i] = l.queue[parent]
		i = parent
	}
	l.queue[i] = e
}

func (l *Loop) pop() entry {
	first := l.queue[0]
	last := len(l.queue) - 1
	e := l.queue[last]
	l.queue[last] = entry{}
	l.queue = l.queue[:last]
	if last == 0 {
		return first
	}
	i := 0
	for {
		least, child := -1, heapWidth*i+1
		for c := child; c < min(child+heapWidth, last); c++ {
			if least < 0 || l.queue[c].before(&l.queue[least]) {
				least = c
			}
		}
		if least < 0 || !l.queue[least].before(&e) {
			break
		}
		l.queue[i] = l.queue[least]
		i = least
	}
	l.queue[i] = e
	return first
}
