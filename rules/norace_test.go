//go:build !race

package rules_test

// seeds is the number of random rule sets.
const seeds = 300
