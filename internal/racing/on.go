//go:build race

package racing

const (
	// Enabled reports whether the race detector is on.
	Enabled = true
	// Slower divides the size of tests that only repeat: 10 with the race detector, 1 without.
	Slower = 10
)
