//go:build !unix

package overload

import "time"

// cpuTime returns 0, because the CPU time is unknown on this system.
func cpuTime() time.Duration { return 0 }
