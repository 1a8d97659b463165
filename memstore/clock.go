package memstore

import "time"

// A clock returns the time in microseconds since 1970.
type clock struct {
	now   func() time.Time // nil for the system's monotonic clock
	start time.Time
	base  int64
}

func newClock(now func() time.Time) clock {
	if now != nil {
		return clock{now: now}
	}
	start := time.Now()
	return clock{start: start, base: start.UnixMicro()}
}

func (c *clock) micros() int64 {
	if c.now != nil {
		return c.now().UnixMicro()
	}
	return c.base + int64(uint64(time.Since(c.start))/uint64(time.Microsecond))
}
