package lease

import (
	"sync"
	"time"

	"github.com/headgate/headgate/internal/clock"
)

const (
	wheelTick  = 10 * time.Millisecond
	wheelSlots = 64
)

// A wheel is a timer wheel: it calls visit for each holding at its scheduled time. Its timer runs only while it has
// holdings.
type wheel struct {
	clock clock.Clock
	visit func([]*holding)

	visiting sync.Mutex // held during visits
	mu       sync.Mutex
	slots    [wheelSlots][]*holding
	current  int  // index of the slot that was visited last
	waiting  int  // number of holdings
	running  bool // the timer runs
	stopped  bool
	timer    clock.Timer
}

func (w *wheel) init(clock clock.Clock, visit func([]*holding)) { w.clock, w.visit = clock, visit }

// add schedules a visit of a holding.
func (w *wheel) add(h *holding, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	ticks := min(max(1, int((after+wheelTick-1)/wheelTick)), wheelSlots-1)
	slot := &w.slots[(w.current+ticks)%wheelSlots]
	*slot = append(*slot, h)
	w.waiting++
	if !w.running {
		w.running = true
		w.timer = w.clock.AfterFunc(wheelTick, w.tick)
	}
}

// tick visits the holdings of the next slot.
func (w *wheel) tick() {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return
	}
	w.current = (w.current + 1) % wheelSlots
	due := w.slots[w.current]
	w.slots[w.current] = nil
	w.waiting -= len(due)
	w.mu.Unlock()

	if len(due) > 0 {
		w.visiting.Lock()
		w.visit(due)
		w.visiting.Unlock()
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == 0 || w.stopped {
		w.running = false
		return
	}
	w.timer = w.clock.AfterFunc(wheelTick, w.tick)
}

// stop stops the wheel, and waits for the current visits.
func (w *wheel) stop() {
	w.mu.Lock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
	for i := range w.slots {
		w.slots[i] = nil
	}
	w.mu.Unlock()
	w.visiting.Lock() // wait for the current visits
	defer w.visiting.Unlock()
}
