//go:build !unix

package overload

import "time"

// cpuTime returns 0: the CPU time is not known on this system.
func cpuTime() time.Duration { return 0 }
