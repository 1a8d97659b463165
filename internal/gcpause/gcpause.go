// Package gcpause delays the garbage collector while a program creates much data that it keeps.
//
// With two processors, the collector uses one of them for a third of its working time: with tens of megabytes of
// rules, a request may find both processors busy, with the collector and with compiling rules, and wait for several
// milliseconds. The new rules and the old ones would also be scanned two or three times before any of them is garbage.
package gcpause

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// ForRules is the number of bytes for compiling ten thousand rules while requests are served. The rules take
// half of it.
const ForRules = 96 << 20

const (
	// smallest is the smallest heap size at which the collector runs with a percentage of 100. It grows in
	// proportion to the percentage.
	smallest = 4 << 20
	// runway is the memory that may be allocated while the final collection runs. Without it, decisions would have to
	// assist the collector.
	runway = 16 << 20
)

// The state is global, because the GC percentage is.
var state struct {
	mu      sync.Mutex
	taken   bool   // a call of Start has not ended
	raised  bool   // the percentage is changed
	before  int    // the original percentage
	goal    uint64 // heap size at which the collector runs
	watched bool   // collected will be called after the next collection
}

// Start delays the collector until the heap has grown by the given number of bytes, or end is called. After that, the
// collector runs soon, and then as often as before. A memory limit (GOMEMLIMIT) still applies. Start does nothing
// while an earlier call has not ended, or if the collector would not run before that anyway.
func Start(bytes uint64) (end func()) {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.raised {
		s.before = percent()
	}
	if h := readHeap(); s.taken || h.percent(h.used+bytes) <= s.before {
		return func() {}
	}
	s.taken = true
	collectAfter(bytes)
	return sync.OnceFunc(finish)
}

// finish lets the collector run soon.
func finish() {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
	collectAfter(runway)
}

// collectAfter lets the collector run when the heap has grown by the given number of bytes. The state must be
// locked.
func collectAfter(bytes uint64) {
	s := &state
	s.raised = true
	debug.SetGCPercent(-1) // waits for the end of a running collection, after which the live heap is known
	h := readHeap()
	s.goal = h.used + bytes
	debug.SetGCPercent(max(s.before, h.percent(s.goal)))
	notifyCollected()
}

// notifyCollected arranges a call of collected after the next collection. The state must be locked.
func notifyCollected() {
	if !state.watched {
		state.watched = true
		runtime.AddCleanup(&struct{ _ [64]byte }{}, func(*struct{}) { collected() }, nil)
	}
}

// collected restores the percentage after a collection. If a call of Start has not ended, the heap may still grow
// up to its goal. The percentage for that is computed again, because it refers to the live heap, which may be
// much larger now.
func collected() {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched = false
	if !s.raised {
		return
	}
	to := s.before
	if s.taken {
		h := readHeap()
		to = max(to, h.percent(s.goal))
		notifyCollected()
	} else {
		s.raised = false
	}
	debug.SetGCPercent(to)
}

// percent returns the current GC percentage.
func percent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(min(sample[0].Value.Uint64(), math.MaxInt32)) // larger values mean off
}

// A heap is the memory state that the collector uses.
type heap struct {
	used  uint64 // bytes in use now
	live  uint64 // bytes in use after the last collection
	roots uint64 // other scanned memory: stacks and globals
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(samples)
	n := func(i int) uint64 { return samples[i].Value.Uint64() }
	return heap{used: max(n(0), n(1)), live: n(1), roots: n(2) + n(3)}
}

// percent returns the GC percentage that makes the collector run at a heap size.
func (h *heap) percent(goal uint64) int {
	growth := goal - min(goal, h.live)
	return int(min(growth*100/max(h.live+h.roots, 1), goal*100/smallest, math.MaxInt32))
}
