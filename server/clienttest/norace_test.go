//go:build !race

package clienttest

// racing reports whether the race detector is on.
const racing = false
