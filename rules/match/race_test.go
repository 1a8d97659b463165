//go:build race

package match_test

// seeds is the number of random rule sets. They are matched in one goroutine, so the race detector needs no more.
const seeds = 20
