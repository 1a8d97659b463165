//go:build !linux

package guard_test

import (
	"testing"
	"time"
)

// newTicker returns what waits for the next tick.
func newTicker(_ *testing.T, every time.Duration) func() { return func() { time.Sleep(every) } }
