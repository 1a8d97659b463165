// Package yield lets other goroutines run during long work.
package yield

import "time"

// A Yielder pauses long work regularly. It sleeps instead of calling runtime.Gosched, which returns without polling the
// network if no other goroutine is runnable. While the garbage collector occupies the other processors, an incoming
// request would then wait for the next preemption, up to 10 ms.
type Yielder struct {
	steps     uint
	lastPause time.Time // when the last pause ended
}

// Pause is the length of one pause. On an idle machine, a pause may take a millisecond.
const Pause = 20 * time.Microsecond

const (
	yieldInterval   = time.Millisecond // time between two pauses
	stepsPerReading = 8                // steps between two readings of the clock
)

// Step must be called for each unit of work.
func (t *Yielder) Step() {
	if t.steps++; t.steps%stepsPerReading != 1 {
		return
	}
	now := time.Now() //nolint:forbidigo // no decision depends on it
	if t.lastPause.IsZero() {
		t.lastPause = now
	}
	if now.Sub(t.lastPause) >= yieldInterval {
		time.Sleep(Pause)
		t.lastPause = time.Now() //nolint:forbidigo // as above
	}
}
