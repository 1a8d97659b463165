//go:build !race

package guard

const slower = 1
