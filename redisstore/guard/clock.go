package guard

import "time"

// A clock returns the time in microseconds.
type clock struct {
	now   func() time.Time // nil for the system's monotonic clock
	start time.Time
}

func newClock(now func() time.Time) clock {
	if now != nil {
		return clock{now: now}
	}
	return clock{start: time.Now()}
}

func (c *clock) micros() int64 {
	if c.now != nil {
		return c.now().UnixMicro()
	}
	return int64(time.Since(c.start)) / int64(time.Microsecond)
}
