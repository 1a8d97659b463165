package topology

import (
	"time"

	"github.com/headgate/headgate/internal/clock"
)

// timing is the clock and the randomness of a client and its servers.
type timing struct {
	clock clock.Clock
	rand  func(n int64) int64 // returns a random number below n
}

// jitter returns a random duration from half of d to d, so that the clients of a fleet do not act at the same time.
func (t *timing) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(t.rand(int64(d/2)))
}
