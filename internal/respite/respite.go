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
	// smallest is the heap below which the collector does not look at how much is alive.
	smallest = 4 << 20
	// runway is what may be taken while the collector works, at the end. If there were none, those who decide requests would have to do
	// its work.
	runway = 16 << 20
)

// The percentage is the whole program's.
var state struct {
	mu     sync.Mutex
	taken  bool
	raised bool // the percentage is not what it was
	before int  // what it was
}

// Take puts the collector off until the heap has grown by so many bytes, or end is called. After that it comes soon, and from then on it
// comes as often as before. A memory limit (GOMEMLIMIT) stays what it is. While another has not ended Take does nothing, nor does it if
// the collector would not come before, or never.
func Take(bytes uint64) (end func()) {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	now, to := percents(bytes)
	if !s.raised {
		s.before = now
	}
	if s.taken || to <= s.before {
		return func() {}
	}
	s.taken, s.raised = true, true
	debug.SetGCPercent(to)
	return sync.OnceFunc(finish)
}

// finish has the collector come soon.
func finish() {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
	_, to := percents(runway)
	debug.SetGCPercent(max(s.before, to))
	runtime.AddCleanup(&struct{ _ [64]byte }{}, func(*struct{}) { restore() }, nil)
}

// restore is called by the collector when it has come.
func restore() {
	s := &state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raised && !s.taken {
		s.raised = false
		debug.SetGCPercent(s.before)
	}
}

// percents returns by how much the heap may grow before it is collected: now, and if that shall be so many bytes from here.
func percents(bytes uint64) (now, to int) {
	samples := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(samples)
	gogc, live, used := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()
	if gogc > math.MaxInt32 { // it is off
		return math.MaxInt, 0
	}
	live = max(live, smallest)
	return int(gogc), int(min((max(used, live)+bytes-live)*100/live, math.MaxInt32))
}
