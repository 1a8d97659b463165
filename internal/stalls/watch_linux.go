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

// watchCore watches a core until standard input ends. It says whether it comes before all others there, and then when the core
// stood still, by the machine's clock.
func watchCore(core int, out *json.Encoder) error {
	var only unix.CPUSet
	only.Set(core)
	first := beFirst() && unix.SchedSetaffinity(0, &only) == nil
	if err := out.Encode(first); err != nil {
		return err
	}
	told := []Span{}
	last, err := machineTime()
	for err == nil {
		var ended bool
		if ended, err = sleep(Tick); ended {
			return out.Encode(told)
		} else if err != nil {
			break
		}
		var now time.Duration
		if now, err = machineTime(); first && now-last > Tick+Least {
			told = append(told, Span{last, now})
		}
		last = now
	}
	return err
}

// sendArrivals writes the time each time a request is sent, until standard input ends or nobody reads it.
func sendArrivals(every time.Duration, to io.Writer) error {
	beFirst() // or as good as it can be: a request is sent when it is
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

// beFirst has the caller's thread come before all that is measured, and stop for nothing. It is false if that was not allowed.
func beFirst() bool {
	debug.SetGCPercent(-1) // it makes next to no garbage
	runtime.LockOSThread()
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: Priority}
	return unix.SchedSetAttr(0, &attr, 0) == nil
}

// Prefer has the kernel run this process, and those of the same session, rather than others, until end is called. It is for what is
// measured: of real-time priority it would not be itself, as threads that wake would wait for those that run.
func Prefer() (end func(), err error) {
	const group = "/proc/self/autogroup"
	weigh := func(nice string) error { return os.WriteFile(group, []byte(nice), 0) }
	if err := weigh("-20"); err != nil {
		return func() {}, fmt.Errorf("come before others: %w", err)
	}
	return func() { _ = weigh("0") }, nil // as good as it was
}

// sleep sleeps, and tells whether standard input has ended meanwhile. The runtime does not hear of it: it would wake other threads.
func sleep(d time.Duration) (ended bool, err error) {
	input := unix.PollFd{Fd: 0, Events: unix.POLLIN}
	pause := unix.NsecToTimespec(int64(d))
	n, _, no := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&input)), 1, uintptr(unsafe.Pointer(&pause)), 0, 0, 0)
	if no != 0 && no != unix.EINTR {
		return false, fmt.Errorf("sleep: %w", no)
	}
	return no == 0 && n > 0, nil
}

// machineTime is how long the machine has been running.
func machineTime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
