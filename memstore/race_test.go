//go:build race

package memstore

// slower divides the size of tests that only repeat: under the race detector an atomic operation costs a microsecond.
const slower = 10
