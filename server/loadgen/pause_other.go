//go:build !linux

package loadgen

import "time"

// coarse is 0, because it is unknown how late timers of the Go runtime may be on this system.
const coarse = 0

// pause waits for a short time.
func pause(d time.Duration) { time.Sleep(d) }
