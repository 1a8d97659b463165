//go:build !race

package sqlite

// kills is how often a writer is killed.
const kills = 30
