//go:build !linux

package loadgen

import "time"

// coarse is the time by which timers of the runtime may be late. It is unknown on this system.
const coarse = 0

// pause waits for a short time.
func pause(d time.Duration) { time.Sleep(d) }
