package core

import (
	"runtime"
	"time"

	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// A collection is what one full garbage collection cost.
type collection struct {
	CPU   time.Duration // that the system charged to the process; marking and sweeping
	Pause time.Duration // all stops of the world of this cycle together
}

// measureCollection runs one collection with the contender alive. The runtime's own account of its time is not asked:
// it takes a worker that waits for a processor for one that works.
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
