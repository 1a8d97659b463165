package overload

import (
	"runtime"
	"time"
)

// CPUShare returns a function that returns the share of its cores that this process has used since its last call, from
// 0 to about 1. On systems without getrusage it is always 0. It must not be called by several goroutines concurrently.
func CPUShare() func() float64 {
	before, at := cpuTime(), time.Now()
	return func() float64 {
		used, now := cpuTime(), time.Now()
		defer func() { before, at = used, now }()
		wall := now.Sub(at) * time.Duration(runtime.GOMAXPROCS(0))
		if wall <= 0 {
			return 0
		}
		return float64(used-before) / float64(wall)
	}
}
