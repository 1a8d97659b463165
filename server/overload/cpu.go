package overload

import (
	"runtime"
	"time"
)

// CPUShare returns a function that measures this process. The function returns the share of the cores' time that was
// used since its last call, from 0 to about 1. On systems without getrusage it returns 0. It is not safe for concurrent
// use.
func CPUShare() func() float64 {
	lastUsed, lastCall := cpuTime(), time.Now()
	return func() float64 {
		used, now := cpuTime(), time.Now()
		defer func() { lastUsed, lastCall = used, now }()
		available := now.Sub(lastCall) * time.Duration(runtime.GOMAXPROCS(0))
		if available <= 0 {
			return 0
		}
		return float64(used-lastUsed) / float64(available)
	}
}
