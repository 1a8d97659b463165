package guard_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newTicker returns what waits for the next tick of the kernel's clock. Timers of the runtime are up to a millisecond late
// on a processor that is idle, and then all fire at once: a crowd that never was.
func newTicker(t *testing.T, every time.Duration) func() {
	t.Helper()
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "timer")
	t.Cleanup(func() { _ = file.Close() })
	span := unix.NsecToTimespec(int64(every))
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: span, Value: span}, nil); err != nil {
		t.Fatal(err)
	}
	var ticks [8]byte
	return func() {
		if _, err := file.Read(ticks[:]); err != nil {
			t.Error(err)
		}
	}
}
