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
	// TryAcquire waits for n permits, takes them and returns true if they are available within timeout. Otherwise it
	// returns false immediately, without waiting.
	TryAcquire(n int64, timeout time.Duration) bool
	// Reserve takes n permits for a later time, without waiting for it.
	Reserve(n int64) Reservation
}
