//go:build !race

package dbtest

// many is the number of rules of a large change.
const many = 10_000
