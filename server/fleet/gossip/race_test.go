//go:build race

package gossip

// racing reports whether the race detector is on.
const racing = true
