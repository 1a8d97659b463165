package main

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A stallWatch watches cores.
type stallWatch struct {
	sees    bool // on all cores
	end     chan struct{}
	watches sync.WaitGroup
	mu      sync.Mutex
	stalls  []stall
}

// watchStalls begins to watch cores; times are from the start. Without the right to be first on a core nothing is seen: a server
// that is busy would look like a stall.
func watchStalls(start time.Time, cores []int) *stallWatch {
	w := &stallWatch{sees: len(cores) > 0, end: make(chan struct{})}
	if len(cores) > 0 {
		// Threads that come back from a sleep go on at once, whatever the load does.
		runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), len(cores)+2))
	}
	begun := make(chan error, len(cores))
	for _, core := range cores {
		w.watches.Go(func() {
			runtime.LockOSThread() // for good: the thread ends with this, and nobody else gets its priority
			err := firstOn(core)
			begun <- err
			if err == nil {
				w.watch(start)
			}
		})
	}
	for range cores {
		if err := <-begun; err != nil {
			w.sees = false
		}
	}
	return w
}

// stop ends the watch and returns the stalls in the order of their ends.
func (w *stallWatch) stop() []stall {
	close(w.end)
	w.watches.Wait()
	slices.SortFunc(w.stalls, func(a, b stall) int { return cmp.Compare(a.to, b.to) })
	if !w.sees {
		return nil
	}
	return w.stalls
}

// firstOn puts the thread on a core, before all others there.
func firstOn(core int) error {
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return err
	}
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

func (w *stallWatch) watch(start time.Time) {
	for last := time.Since(start); ; {
		select {
		case <-w.end:
			return
		default:
		}
		pause := unix.NsecToTimespec(int64(stallTick))
		_ = unix.Nanosleep(&pause, nil) // woken early, it sleeps again
		now := time.Since(start)
		if now-last > stallTick+stallLeast {
			w.mu.Lock()
			w.stalls = append(w.stalls, stall{last, now})
			w.mu.Unlock()
		}
		last = now
	}
}
