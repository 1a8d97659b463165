//go:build race

package dbtest

// manyRuleCount is the number of rules of a large change. It is small here, because SQLite, which is C translated to
// Go, is a hundred times slower with the race detector.
const manyRuleCount = 500
