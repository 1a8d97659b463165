//go:build race

package client

// slower is by how much the race detector slows things down.
const slower = 10
