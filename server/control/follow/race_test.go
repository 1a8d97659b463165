//go:build race

package follow_test

// slow reports that the race detector is on, which makes a database in pure Go a hundred times slower.
const slow = true
