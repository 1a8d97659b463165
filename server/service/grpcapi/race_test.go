//go:build race

package grpcapi

// racing reports whether the race detector is on.
const racing = true
