// Package gcpause delays the garbage collector while a program allocates a lot of long-lived data.
//
// With two processors, a collection keeps one of them busy for about a third of the time. While tens of megabytes of
// rules are compiled, a request may then find both processors busy and wait for several milliseconds. The new rules and
// the old ones would also be scanned two or three times before any of them is garbage.
package gcpause

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// ForRules is the argument of Start for compiling ten thousand rules while requests are served. The compiled rules
// take half of these bytes.
const ForRules = 96 << 20

const (
	// minHeap is the smallest heap size at which the collector runs with a percentage of 100. It grows in proportion
	// to the percentage.
	minHeap = 4 << 20
	// allocatedDuringGC is the memory that may be allocated while the final collection runs. If it were less, goroutines
	// that serve requests would have to assist the collector.
	allocatedDuringGC = 16 << 20
)

// The state is global, because the GC percentage is.
var state struct {
	mu     sync.Mutex
	active bool   // a call of Start has not ended
	raised bool   // the percentage is changed
	before int    // the original percentage
	goal   uint64 // heap size at which the collector runs
	notify bool   // collected will be called after the next collection
}

// Start delays the collector until the heap has grown by the given number of bytes, or end is called. After that, the
// collector runs soon, and then as often as before. A memory limit (GOMEMLIMIT) still applies. Start does nothing
// while an earlier call has not ended, or if the collector would not run before that anyway.
func Start(bytes uint64) (end func()) {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.raised {
		s.before = currentPercent()
	}
	if h := readHeap(); s.active || h.percentFor(h.used+bytes) <= s.before {
		return func() {}
	}
	s.active = true
	collectAfter(bytes)
	return sync.OnceFunc(finish)
}

// finish lets the collector run soon.
func finish() {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = false
	collectAfter(allocatedDuringGC)
}

// collectAfter lets the collector run when the heap has grown by the given number of bytes. The state must be
// locked.
func collectAfter(bytes uint64) {
	s := &state
	s.raised = true
	debug.SetGCPercent(-1) // waits for the end of a running collection, after which the live heap is known
	h := readHeap()
	s.goal = h.used + bytes
	debug.SetGCPercent(max(s.before, h.percentFor(s.goal)))
	notifyCollected()
}

// notifyCollected arranges a call of collected after the next collection. The state must be locked.
func notifyCollected() {
	if !state.notify {
		state.notify = true
		runtime.AddCleanup(&struct{ _ [64]byte }{}, func(*struct{}) { collected() }, nil)
	}
}

// collected restores the percentage after a collection. If a call of Start has not ended, the heap may still grow up to
// its goal. Then collected computes the percentage for that goal again, because the percentage refers to the live heap,
// which may be much larger now.
func collected() {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify = false
	if !s.raised {
		return
	}
	to := s.before
	if s.active {
		h := readHeap()
		to = max(to, h.percentFor(s.goal))
		notifyCollected()
	} else {
		s.raised = false
	}
	debug.SetGCPercent(to)
}

// currentPercent returns the GC percentage.
func currentPercent() int {
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
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(samples)
	value := func(i int) uint64 { return samples[i].Value.Uint64() }
	// The runtime counts small objects late, so used may be less than live.
	return heap{used: max(value(0), value(1)), live: value(1), roots: value(2) + value(3)}
}

// percentFor returns the GC percentage that makes the collector run at a heap size.
func (h *heap) percentFor(goal uint64) int {
	growth := goal - min(goal, h.live)
	return int(min(growth*100/max(h.live+h.roots, 1), goal*100/minHeap, math.MaxInt32))
}
