//go:build !race

package match_test

// seeds is the number of random rule sets.
const seeds = 300
