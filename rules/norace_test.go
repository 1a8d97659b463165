//go:build !race

package rules_test

// seeds is how many sets of rules are drawn.
const seeds = 300
