package pacer

import (
	"context"
	"time"
)

// Pacer is what the pacers of this package have in common, for code that doesn't care which one it is given.
type Pacer interface {
	// Acquire waits in line for n permits and returns how long that took. With an error it has taken nothing.
	Acquire(ctx context.Context, n int64) (waited time.Duration, err error)
	// TryAcquire is Acquire if the wait is at most timeout, and otherwise returns false at once.
	TryAcquire(n int64, timeout time.Duration) bool
	// Reserve takes n permits for the time when they are due, and doesn't wait for it.
	Reserve(n int64) Reservation
}
