//go:build !linux

package arrivals

import "time"

// newTicker returns functions that wait for the next tick, and that close it.
func newTicker(every time.Duration) (next, end func() error, err error) {
	return func() error { time.Sleep(every); return nil }, func() error { return nil }, nil
}
