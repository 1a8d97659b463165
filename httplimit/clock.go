package httplimit

import (
	"sync/atomic"
	"time"
)

// A clock is a cheaper time.Now: it reads the time of day once a second, and the monotonic clock in between.
type clock struct{ asked atomic.Pointer[time.Time] }

func (c *clock) now() time.Time {
	if asked := c.asked.Load(); asked != nil {
		if passed := time.Since(*asked); passed < time.Second {
			return asked.Add(passed)
		}
	}
	now := time.Now()
	c.asked.Store(&now)
	return now
}
