package service

import (
	"sync/atomic"
	"time"
)

// A LogLimit limits how often a message is logged. The zero value is ready for use. It is safe for concurrent use.
type LogLimit struct {
	lastNanos atomic.Int64 // time of the last message, in nanoseconds since 1970
}

// Allow reports whether the message may be logged now: at most once in each interval.
func (l *LogLimit) Allow(interval time.Duration) bool {
	now, last := time.Now().UnixNano(), l.lastNanos.Load()
	clockWentBack := now < last
	return (now-last >= int64(interval) || clockWentBack) && l.lastNanos.CompareAndSwap(last, now)
}

// Millis returns d in whole milliseconds, rounded up, so that a client that waits for the result does not retry too
// early. It returns 0 for a negative d.
func Millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}
