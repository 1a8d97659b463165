package harness

import (
	"os"
	"runtime"
)

// BallastBytes is the ballast that headgate carries. Who is compared with it and written here carries as much, so that
// nobody's garbage is collected more often than another's for the sake of a small heap.
const BallastBytes = 32 << 20

// WithBallast runs a server that carries it, unless GOGC says otherwise to all.
func WithBallast(run func() error) error {
	if os.Getenv("GOGC") != "" {
		return run()
	}
	ballast := make([]byte, BallastBytes)
	defer runtime.KeepAlive(ballast)
	return run()
}
