// Package respite puts the garbage collector off while a program makes much that it keeps.
//
// Where there are two processors, the collector takes one of them for as long as a third of the time that it has been at work: with tens
// of megabytes of rules to look through, a request may find it and who makes the rules on both processors, and wait for several
// milliseconds. What is made and what it replaces would be looked through two or three times, too, before any of it is garbage.
package respite

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// ForRules is enough to make ten thousand rules, which take half of it, while requests are served.
const ForRules = 96 << 20

const (
	// smallest is what the percentage is of, at least, whatever is alive.
	smallest = 4 << 20
	// runway is what may be taken while the collector works, at the end. If there were none, those who decide requests would have to do
	// its work.
	runway = 16 << 20
)

// The percentage is the whole program's.
var state struct {
	mu      sync.Mutex
	taken   bool
	raised  bool   // the percentage is not what it was
	before  int    // what it was
	goal    uint64 // how large the heap may be before the collector comes
	watched bool   // collected will be called
}

// Take puts the collector off until the heap has grown by so many bytes, or end is called. After that it comes soon, and from then on it
// comes as often as before. A memory limit (GOMEMLIMIT) stays what it is. While another has not ended Take does nothing, nor does it if
// the collector would not come before, or never.
func Take(bytes uint64) (end func()) {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.raised {
		s.before = percent()
	}
	if h := look(); s.taken || h.percent(h.used+bytes) <= s.before {
		return func() {}
	}
	s.taken = true
	putOff(bytes)
	return sync.OnceFunc(finish)
}

// finish has the collector come soon.
func finish() {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
	putOff(runway)
}

// putOff has the collector come when the heap has grown by so many bytes. The state is locked.
func putOff(bytes uint64) {
	s := &state
	s.raised = true
	debug.SetGCPercent(-1) // waits for the end of a collection that is under way: what is alive is only known then
	h := look()
	s.goal = h.used + bytes
	debug.SetGCPercent(max(s.before, h.percent(s.goal)))
	watch()
}

// watch has collected called when the collector has come. The state is locked.
func watch() {
	if !state.watched {
		state.watched = true
		runtime.AddCleanup(&struct{ _ [64]byte }{}, func(*struct{}) { collected() }, nil)
	}
}

// collected restores the percentage. If it has not ended yet, the heap may grow no further than it might before: the percentage is one of
// what is alive, and that may be many times as much now.
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
		h := look()
		to = max(to, h.percent(s.goal))
		watch()
	} else {
		s.raised = false
	}
	debug.SetGCPercent(to)
}

// percent returns by how much the heap may grow before it is collected.
func percent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(min(sample[0].Value.Uint64(), math.MaxInt32)) // more is off
}

// A heap is what the collector goes by.
type heap struct {
	used  uint64 // now
	live  uint64 // what was alive when it was last collected
	roots uint64 // what was looked through besides: stacks and variables
}

func look() heap {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(samples)
	n := func(i int) uint64 { return samples[i].Value.Uint64() }
	return heap{used: max(n(0), n(1)), live: n(1), roots: n(2) + n(3)}
}

// percent returns by how much it may grow if it is to be collected when it is so large.
func (h *heap) percent(goal uint64) int {
	grown := goal - min(goal, h.live)
	return int(min(grown*100/max(h.live+h.roots, 1), goal*100/smallest, math.MaxInt32))
}
