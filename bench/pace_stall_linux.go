package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A stallWatch watches cores, with a process on each: in one that does anything else, the thread that is to wake would have to
// wait for other threads that are not first.
type stallWatch struct {
	start    time.Duration // of the load, by the machine's clock
	watchers []*stallWatcher
	sees     bool // on all cores
}

type stallWatcher struct {
	cmd *exec.Cmd
	in  io.Closer
	out *json.Decoder
}

// watchStalls begins to watch cores; times are from the start. Without the right to be first on a core nothing is seen: a server
// that is busy would look like a stall.
func watchStalls(start time.Time, cores []int) (*stallWatch, error) {
	now, err := machineTime()
	if err != nil {
		return nil, err
	}
	w := &stallWatch{start: now - time.Since(start), sees: len(cores) > 0}
	for _, core := range cores {
		one, err := newStallWatcher(core)
		if err != nil {
			w.stop()
			return nil, fmt.Errorf("watch for stalls: %w", err)
		}
		w.watchers = append(w.watchers, one)
		var begun stallsBegun
		if one.out.Decode(&begun) != nil || !begun.First {
			w.sees = false
		}
	}
	return w, nil
}

func newStallWatcher(core int) (*stallWatcher, error) {
	taskset, err := program("taskset")
	if err != nil {
		return nil, err
	}
	cmd, err := command(context.Background(), childFlags{mode: childStalls})
	if err != nil {
		return nil, err
	}
	cmd.Args = append([]string{taskset, "-c", strconv.Itoa(core)}, cmd.Args...)
	cmd.Path, cmd.Stderr = taskset, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &stallWatcher{cmd: cmd, in: in, out: json.NewDecoder(bufio.NewReader(out))}, nil
}

// stop ends the watch and returns the stalls in the order of their ends, none if it could not see.
func (w *stallWatch) stop() []stall {
	var all []stall
	for _, one := range w.watchers {
		_ = one.in.Close() // at which it tells
		var told stallsTold
		if one.out.Decode(&told) != nil {
			w.sees = false
		}
		_ = one.cmd.Wait() // however it ended, it has told, or not
		for _, s := range told.Stalls {
			all = append(all, stall{s[0] - w.start, s[1] - w.start})
		}
	}
	if !w.sees {
		return nil
	}
	slices.SortFunc(all, func(a, b stall) int { return cmp.Compare(a.to, b.to) })
	return all
}

type (
	// stallsBegun is what a watcher says first: whether it comes before all others on its core.
	stallsBegun struct{ First bool }
	// stallsTold is what it says last: from when to when its core stalled, by the machine's clock.
	stallsTold struct{ Stalls [][2]time.Duration }
)

// runStalls is the process that watches its core until in ends.
func runStalls(in io.Reader, out *json.Encoder) error {
	debug.SetGCPercent(-1) // it makes next to no garbage, and must not stop
	first := inRealTime(os.Getpid(), watchPriority) == nil
	if err := out.Encode(stallsBegun{First: first}); err != nil {
		return err
	}
	var end atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, in) // however it ends, it ends
		end.Store(true)
	}()
	var told stallsTold
	for last, err := machineTime(); first && !end.Load(); {
		if err != nil {
			return err
		}
		pause := unix.NsecToTimespec(int64(stallTick))
		if err := unix.Nanosleep(&pause, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("sleep: %w", err)
		}
		var now time.Duration
		now, err = machineTime()
		if now-last > stallTick+stallLeast {
			told.Stalls = append(told.Stalls, [2]time.Duration{last, now})
		}
		last = now
	}
	<-ended
	return out.Encode(told)
}

// inRealTime has all threads of a process come before those that are not of real time, and of a lower priority.
func inRealTime(pid, priority int) error {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			return fmt.Errorf("read %s: %w", dir, err)
		}
		attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: uint32(priority)}
		if err := unix.SchedSetAttr(id, &attr, 0); err != nil {
			return fmt.Errorf("real time for %d: %w", id, err)
		}
	}
	return nil
}

// machineTime is how long the machine has been running.
func machineTime() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
