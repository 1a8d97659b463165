package redistest

import (
	"fmt"
	"sync"
	"time"
)

const (
	// maxWait is the longest that waitUntil waits. Servers need a few seconds at most.
	maxWait = 2 * time.Minute
	// poll is the poll interval.
	poll = 3 * time.Millisecond
)

// waitUntil calls try until it returns no error. After maxWait, it returns the last error.
func waitUntil(what string, try func() error) error {
	for deadline := time.Now().Add(maxWait); ; time.Sleep(poll) {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redistest: %s did not succeed within %v: %w", what, maxWait, err)
		}
	}
}

// startAll starts servers concurrently.
func startAll(servers ...*Server) error {
	errs := make([]error, len(servers))
	var started sync.WaitGroup
	for i, s := range servers {
		started.Go(func() { errs[i] = s.start() })
	}
	started.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
