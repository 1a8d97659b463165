//go:build !linux

// Package pages tells the operating system how to provide memory.
package pages

// PreferLarge does nothing on this system.
func PreferLarge[T any]([]T) {}

// Return reports whether the memory was returned to the system. It never is on this system.
func Return[T any]([]T) bool { return false }
