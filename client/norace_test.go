//go:build !race

package client

// racing tells that the race detector is on.
const racing = false
