//go:build race

package sqlite

// kills is how often a writer is killed: the race detector makes each of them take seconds.
const kills = 4
