//go:build race

package guard

// slower divides the size of tests that only repeat: the race detector takes ten times as long.
const slower = 10
