package redistest

import (
	"fmt"
	"sync"
	"time"
)

const (
	// patience is how long the harness waits for what takes servers seconds at most.
	patience = 2 * time.Minute
	// poll is how often it looks.
	poll = 3 * time.Millisecond
)

// waitUntil tries until there is no error any more, and returns the last one when it has no more patience.
func waitUntil(what string, try func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redistest: %s: not within %v: %w", what, patience, err)
		}
	}
}

// startAll starts servers at the same time.
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
