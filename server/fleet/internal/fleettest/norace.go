//go:build !race

package fleettest

// RaceEnabled reports whether the race detector is on.
const RaceEnabled = false
