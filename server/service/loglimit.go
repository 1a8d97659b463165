package service

import (
	"sync/atomic"
	"time"
)

// A LogLimit limits how often a message is logged. The zero value is ready for use. It is safe for concurrent use.
type LogLimit struct{ last atomic.Int64 }

// Allow reports whether the message may be logged now: the last time was at least interval ago.
func (l *LogLimit) Allow(interval time.Duration) bool {
	now, last := time.Now().UnixNano(), l.last.Load()
	return (now-last >= int64(interval) || now < last) && l.last.CompareAndSwap(last, now)
}

// Millis returns whole milliseconds, rounded up, so that a client that waits this long has waited long enough.
func Millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}
