package stalls

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// A Thread is the thread of a goroutine that is locked to it.
type Thread struct{ file *os.File }

// OwnThread returns the caller's thread. The caller must have locked itself to it.
func OwnThread() (*Thread, error) {
	file, err := os.Open(fmt.Sprintf("/proc/self/task/%d/schedstat", unix.Gettid()))
	if err != nil {
		return nil, fmt.Errorf("watch a thread: %w", err)
	}
	return &Thread{file}, nil
}

// Times returns the thread's times so far.
func (t *Thread) Times() (Times, error) {
	var text [64]byte
	n, err := unix.Pread(int(t.file.Fd()), text[:], 0)
	if err != nil {
		return Times{}, fmt.Errorf("watch a thread: %w", err)
	}
	fields := bytes.Fields(text[:n])
	if len(fields) < 2 {
		return Times{}, fmt.Errorf("watch a thread: malformed times %q", text[:n])
	}
	queued, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return Times{}, fmt.Errorf("watch a thread: %w", err)
	}
	var ran unix.Timespec // the first field is updated only at ticks
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ran); err != nil {
		return Times{}, fmt.Errorf("watch a thread: %w", err)
	}
	return Times{Ran: time.Duration(ran.Nano()), Queued: time.Duration(queued)}, nil
}

// Close ends the watch.
func (t *Thread) Close() error { return t.file.Close() }
