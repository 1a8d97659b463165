package pacer

import (
	"context"
	"time"
)

// Pacer is the common interface of the pacers of this package.
type Pacer interface {
	// Acquire waits for n permits, takes them and returns how long it waited. If it returns an error, it has taken
	// nothing.
	Acquire(ctx context.Context, n int64) (waited time.Duration, err error)
	// TryAcquire takes n permits and returns true if the wait is at most timeout. Otherwise it returns false immediately.
	TryAcquire(n int64, timeout time.Duration) bool
	// Reserve takes n permits for a later time, without waiting for it.
	Reserve(n int64) Reservation
}
