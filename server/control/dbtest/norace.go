//go:build !race

package dbtest

// manyRuleCount is the number of rules of a large change.
const manyRuleCount = 10_000
