//go:build race

package match_test

// seeds is the number of random rule sets. The race detector is slow.
const seeds = 60
