package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// clockEnvironment returns the environment variables with which a server sees another time than the system.
func (s *Server) clockEnvironment() ([]string, error) {
	if !s.fakesClock() {
		return nil, nil
	}
	library, err := findFaketime()
	if err != nil {
		return nil, err
	}
	offset := fmt.Sprintf("FAKETIME=%+f", s.o.ClockOffset.Seconds())
	if s.o.MovableClock {
		if _, err := os.Stat(s.file("clock")); err != nil {
			if err := s.writeClock(0); err != nil {
				return nil, err
			}
		}
		offset = "FAKETIME_TIMESTAMP_FILE=" + s.file("clock")
	}
	return []string{
		offset,
		"FAKETIME_CACHE_DURATION=1",
		// libc.so.6 is preloaded, too, so that memory comes from it and not from jemalloc. libfaketime needs memory when it
		// starts, and jemalloc needs the time before it provides memory.
		"LD_PRELOAD=" + library + " libc.so.6",
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
	}, nil
}

// fakesClock reports whether the clock of the server differs from that of the system.
func (s *Server) fakesClock() bool { return s.o.ClockOffset != 0 || s.o.MovableClock }

// MoveClock sets how far the clock of a server with a MovableClock is ahead. The server sees it within about a second.
func (s *Server) MoveClock(offset time.Duration) {
	s.t.Helper()
	if err := s.writeClock(offset); err != nil {
		s.t.Errorf("redistest: move the clock of %s: %v", s, err)
	}
}

// writeClock replaces the file that libfaketime reads. It renames a complete file, so that libfaketime never
// reads an incomplete one.
func (s *Server) writeClock(offset time.Duration) error {
	next := s.file("clock.next")
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+f\n", offset.Seconds()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, s.file("clock"))
}

// unlinkClock removes the shared memory files of libfaketime. A process needs their names only when it starts, and
// cannot remove them when it is killed.
func unlinkClock(pid int) {
	_ = os.Remove(fmt.Sprintf("/dev/shm/faketime_shm_%d", pid))
	_ = os.Remove(fmt.Sprintf("/dev/shm/sem.faketime_sem_%d", pid))
}

// findFaketime returns the path of libfaketime, the library that changes the time that a program sees.
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
