package loadgen

import (
	"syscall"
	"time"
)

// coarse is the time by which timers of the runtime may be late: it waits in whole milliseconds while it is idle.
const coarse = 1500 * time.Microsecond

// pause waits for a short time, more precisely than a timer. A signal may end it early.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // the caller compares the clock
}
