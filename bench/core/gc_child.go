package core

import (
	"runtime"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// A collection is the cost of one full garbage collection.
type collection struct {
	CPU   time.Duration // that the system charged to the process; marking and sweeping
	Pause time.Duration // all stops of the world of this cycle together
}

// measureCollection runs one garbage collection while the contender is in use. It does not use the runtime's own
// figures, because they count a worker that waits for a processor as a running one.
func measureCollection(c limiters.Limiter) (collection, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from, err := harness.CpuTime()
	if err != nil {
		return collection{}, err
	}
	runtime.GC()
	to, err := harness.CpuTime()
	if err != nil {
		return collection{}, err
	}
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(c)
	return collection{CPU: to - from, Pause: time.Duration(after.PauseTotalNs - before.PauseTotalNs)}, nil
}
