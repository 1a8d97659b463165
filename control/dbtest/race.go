//go:build race

package dbtest

// many is how many rules a large change has. SQLite is C turned into Go, which the race detector makes a hundred times
// slower; tests without it have the whole number.
const many = 500
