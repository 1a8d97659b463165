package loadgen

import (
	"syscall"
	"time"
)

// coarse is how late timers of the Go runtime may be. While no goroutine runs, the runtime waits in whole milliseconds.
const coarse = 1500 * time.Microsecond

// pause waits for a short time, more precisely than a timer. A signal may end the wait early.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // after an early return, the caller waits again
}
