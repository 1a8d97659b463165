package topology

import (
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// timing is the clock and the random numbers that a client and its servers use.
type timing struct {
	clock clock.Clock
	rand  func(n int64) int64 // returns a random number below n
}

// jitter returns a random duration between d/2 and d, so that clients in several processes do not act at the same time.
func (t *timing) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(t.rand(int64(d/2)))
}
