package arrivals

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// newTicker returns a function that waits for the next tick of a kernel timer, and a function that closes the timer.
// The timers of the Go runtime are up to a millisecond late on an idle processor, and all missed calls would then begin
// at once.
func newTicker(every time.Duration) (next, end func() error, err error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("create a timer: %w", err)
	}
	file := os.NewFile(uintptr(fd), "timer")
	span := unix.NsecToTimespec(int64(every))
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: span, Value: span}, nil); err != nil {
		_ = file.Close()
		return nil, nil, fmt.Errorf("set a timer: %w", err)
	}
	var ticks [8]byte
	return func() error {
		if _, err := file.Read(ticks[:]); err != nil {
			return fmt.Errorf("wait for a timer: %w", err)
		}
		return nil
	}, file.Close, nil
}
