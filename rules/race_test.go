//go:build race

package rules_test

// seeds is how many sets of rules are drawn. The race detector takes its time.
const seeds = 60
