//go:build !linux

package rules

// preferLargePages does nothing on this system.
func preferLargePages[T any]([]T) {}
