package main

import (
	"os"
	"runtime"
)

// ballastBytes is the ballast that headgate carries. Who is compared with it and written here carries as much, so that nobody's
// garbage is collected more often than another's for the sake of a small heap.
const ballastBytes = 32 << 20

// withBallast runs a server that carries it, unless GOGC says otherwise to all.
func withBallast(run func() error) error {
	if os.Getenv("GOGC") != "" {
		return run()
	}
	ballast := make([]byte, ballastBytes)
	defer runtime.KeepAlive(ballast)
	return run()
}
