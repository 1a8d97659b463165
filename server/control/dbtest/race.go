//go:build race

package dbtest

// many is the number of rules of a large change. SQLite is C translated to Go, which the race detector makes a hundred
// times slower; tests without it use the full number.
const many = 500
