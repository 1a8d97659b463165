package stalls

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchCore watches a core until standard input ends. It writes whether it has real-time priority there, and then the
// stalls of the core, by the machine's clock.
func watchCore(core int, out *json.Encoder) error {
	var only unix.CPUSet
	only.Set(core)
	realtime := setRealtime() && unix.SchedSetaffinity(0, &only) == nil
	if err := out.Encode(realtime); err != nil {
		return err
	}
	spans := []Span{}
	last, err := machineTime()
	for err == nil {
		var ended bool
		if ended, err = sleep(Tick); ended {
			return out.Encode(spans)
		} else if err != nil {
			break
		}
		var now time.Duration
		if now, err = machineTime(); realtime && now-last > Tick+Least {
			spans = append(spans, Span{last, now})
		}
		last = now
	}
	return err
}

// sendArrivals writes the time of each request, until standard input ends or a write fails.
func sendArrivals(every time.Duration, to io.Writer) error {
	setRealtime() // if allowed
	for {
		ended, err := sleep(every)
		if ended || err != nil {
			return err
		}
		now, err := machineTime()
		if err != nil {
			return err
		}
		if _, err := to.Write(binary.NativeEndian.AppendUint64(nil, uint64(now))); err != nil {
			return fmt.Errorf("send a request: %w", err)
		}
	}
}

// setRealtime gives the caller's thread real-time priority and turns off its collector. It returns false if that is not
// allowed.
func setRealtime() bool {
	debug.SetGCPercent(-1) // it allocates almost nothing
	runtime.LockOSThread()
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: Priority}
	return unix.SchedSetAttr(0, &attr, 0) == nil
}

// Prefer gives this process, and those of the same session, a higher share of the CPU until end is called. It is for
// measured code: real-time priority would change its behaviour, because waking threads would wait for running ones.
func Prefer() (end func(), err error) {
	const group = "/proc/self/autogroup"
	weigh := func(nice string) error { return os.WriteFile(group, []byte(nice), 0) }
	if err := weigh("-20"); err != nil {
		return func() {}, fmt.Errorf("come before others: %w", err)
	}
	return func() { _ = weigh("0") }, nil // the default
}

// sleep sleeps, and reports whether standard input has ended meanwhile. It bypasses the runtime, which would wake
// other threads.
func sleep(d time.Duration) (ended bool, err error) {
	input := unix.PollFd{Fd: 0, Events: unix.POLLIN}
	pause := unix.NsecToTimespec(int64(d))
	n, _, no := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&input)), 1, uintptr(unsafe.Pointer(&pause)), 0, 0,
		0)
	if no != 0 && no != unix.EINTR {
		return false, fmt.Errorf("sleep: %w", no)
	}
	return no == 0 && n > 0, nil
}

// machineTime returns the machine's monotonic time.
func machineTime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
