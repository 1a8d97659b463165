//go:build !linux

package arrivals

import "time"

// newTicker returns a function that waits for the next tick, and a function that closes the ticker.
func newTicker(every time.Duration) (next, end func() error, err error) {
	return func() error { time.Sleep(every); return nil }, func() error { return nil }, nil
}
