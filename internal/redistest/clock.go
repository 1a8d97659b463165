package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// clockEnvironment returns environment variables that show a process another time.
func clockEnvironment(offset time.Duration) ([]string, error) {
	if offset == 0 {
		return nil, nil
	}
	library, err := findFaketime()
	if err != nil {
		return nil, err
	}
	return []string{
		// With the C library preloaded, it provides memory. jemalloc cannot: libfaketime needs memory to start, and
		// jemalloc needs the time before it provides any.
		"LD_PRELOAD=" + library + " libc.so.6",
		fmt.Sprintf("FAKETIME=%+f", offset.Seconds()),
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
	}, nil
}

// unlinkClock removes the names of the memory that libfaketime shares with the children of a process. It needs them
// only at its start, and cannot remove them when it is killed.
func unlinkClock(pid int) {
	_ = os.Remove(fmt.Sprintf("/dev/shm/faketime_shm_%d", pid))
	_ = os.Remove(fmt.Sprintf("/dev/shm/sem.faketime_sem_%d", pid))
}

// findFaketime returns the path of the library that shows a program another time.
func findFaketime() (string, error) {
	for _, pattern := range []string{
		"/usr/lib/*/faketime/libfaketime.so.1",
		"/usr/lib*/faketime/libfaketime.so.1",
		"/usr/local/lib*/faketime/libfaketime.so.1",
	} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errors.New("redistest: a server with a clock of its own needs libfaketime.so.1, " +
		"which is not under /usr/lib; install the package libfaketime, as make need-redis does")
}
