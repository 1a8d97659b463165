//go:build !linux

package rules

// preferLargePages does nothing here.
func preferLargePages[T any]([]T) {}
