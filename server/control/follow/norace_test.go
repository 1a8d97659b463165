//go:build !race

package follow_test

const slow = false
