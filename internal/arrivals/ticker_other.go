//go:build !linux

package arrivals

import "time"

// newTicker returns what waits for the next tick, and what ends it.
func newTicker(every time.Duration) (next, end func() error, err error) {
	return func() error { time.Sleep(every); return nil }, func() error { return nil }, nil
}
