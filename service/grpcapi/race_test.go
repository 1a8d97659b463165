//go:build race

package grpcapi

// racing tells that the race detector is on.
const racing = true
