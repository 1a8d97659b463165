package harness

import (
	"os"
	"runtime"
)

// BallastBytes is the size of headgate's ballast, memory that makes garbage collections rarer. Go servers in this
// benchmark that are compared with headgate have the same ballast, so that a smaller heap is no disadvantage.
const BallastBytes = 32 << 20

// WithBallast runs a server with ballast, unless GOGC is set.
func WithBallast(run func() error) error {
	if os.Getenv("GOGC") != "" {
		return run()
	}
	ballast := make([]byte, BallastBytes)
	defer runtime.KeepAlive(ballast)
	return run()
}
