package lease

import (
	"sync"
	"time"

	"github.com/headgate/headgate/fleet"
)

const (
	wheelTick  = 10 * time.Millisecond
	wheelSlots = 64
)

// A wheel says when it is time to look at a holding again. It turns only while there is one in it.
type wheel struct {
	clock fleet.Clock
	due   func([]*holding)

	looking sync.Mutex // held while holdings are looked at
	mu      sync.Mutex
	slots   [wheelSlots][]*holding
	at      int // the slot that is next
	waiting int
	turning bool
	stopped bool
	timer   fleet.Timer
}

func (w *wheel) init(clock fleet.Clock, due func([]*holding)) { w.clock, w.due = clock, due }

// add has a holding looked at after a while.
func (w *wheel) add(h *holding, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	ticks := min(max(1, int((after+wheelTick-1)/wheelTick)), wheelSlots-1)
	slot := &w.slots[(w.at+ticks)%wheelSlots]
	*slot = append(*slot, h)
	w.waiting++
	if !w.turning {
		w.turning = true
		w.timer = w.clock.AfterFunc(wheelTick, w.turn)
	}
}

// turn looks at those whose time has come.
func (w *wheel) turn() {
	w.mu.Lock()
	if w.stopped {
		w.mu.Unlock()
		return
	}
	w.at = (w.at + 1) % wheelSlots
	due := w.slots[w.at]
	w.slots[w.at] = nil
	w.waiting -= len(due)
	w.mu.Unlock()

	if len(due) > 0 {
		w.looking.Lock()
		w.due(due)
		w.looking.Unlock()
	}

	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == 0 || w.stopped {
		w.turning = false
		return
	}
	w.timer = w.clock.AfterFunc(wheelTick, w.turn)
}

// stop ends it, and waits until nothing is looked at any more.
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
	w.looking.Lock() // what is being looked at
	defer w.looking.Unlock()
}
