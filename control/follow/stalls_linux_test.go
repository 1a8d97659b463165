package follow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// watchedCore is set for a process that does nothing but watch a core.
	watchedCore = "HEADGATE_TEST_WATCHED_CORE"
	// A core stalls if what comes before all else on it wakes later than it should.
	stallTick  = 500 * time.Microsecond
	stallLeast = 300 * time.Microsecond
)

func TestMain(m *testing.M) {
	core, err := strconv.Atoi(os.Getenv(watchedCore))
	if err != nil {
		os.Exit(m.Run())
	}
	if err := watchCore(core); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// watchStalls watches all cores from now on, with a process on each that comes before all others there: nothing that this process
// does keeps it from waking, so what does is the machine below. The function that is returned ends that, and returns when the machine
// stood still, from the time at which watchStalls was called. It is false if nothing could be seen, for want of the right to be first.
func watchStalls(t testing.TB) (stop func() ([]span, bool)) {
	t.Helper()
	start, err := machineTime()
	if err != nil {
		t.Fatal(err)
	}
	sees := true
	var ends []func() []span
	for core := range runtime.NumCPU() {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), watchedCore+"="+strconv.Itoa(core)), os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told := json.NewDecoder(out)
		var first bool
		sees = told.Decode(&first) == nil && first && sees
		ends = append(ends, func() []span {
			_ = in.Close() // at which it tells
			var list [][2]time.Duration
			sees = told.Decode(&list) == nil && sees
			_ = cmd.Wait() // however it ended, it has told, or not
			var made []span
			for _, s := range list {
				made = append(made, span{s[0] - start, s[1] - start})
			}
			return made
		})
	}
	return func() (all []span, ok bool) {
		for _, end := range ends {
			all = append(all, end()...)
		}
		return all, sees
	}
}

// watchCore is the process that watches a core until its input ends. It says whether it comes before all others there, and then when
// the core stood still.
func watchCore(core int) error {
	debug.SetGCPercent(-1) // it makes next to no garbage, and must not stop
	runtime.LockOSThread()
	var only unix.CPUSet
	only.Set(core)
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 2}
	first := unix.SchedSetaffinity(0, &only) == nil && unix.SchedSetAttr(0, &attr, 0) == nil
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(first); err != nil {
		return err
	}
	var end atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin) // however it ends, it ends
		end.Store(true)
	}()
	list := [][2]time.Duration{}
	for last, err := machineTime(); first && !end.Load(); {
		if err != nil {
			return err
		}
		pause := unix.NsecToTimespec(int64(stallTick))
		if err := unix.Nanosleep(&pause, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("sleep: %w", err)
		}
		var now time.Duration
		if now, err = machineTime(); now-last > stallTick+stallLeast {
			list = append(list, [2]time.Duration{last, now})
		}
		last = now
	}
	<-ended
	return out.Encode(list)
}

// machineTime is how long the machine has been running.
func machineTime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
