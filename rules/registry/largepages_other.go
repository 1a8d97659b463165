//go:build !linux

package registry

// preferLargePages does nothing on this system.
func preferLargePages[T any]([]T) {}
