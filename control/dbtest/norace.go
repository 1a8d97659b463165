//go:build !race

package dbtest

// many is how many rules a large change has.
const many = 10_000
