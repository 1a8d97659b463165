//go:build !unix

package overload

import "time"

// cpuTime is not known here.
func cpuTime() time.Duration { return 0 }
