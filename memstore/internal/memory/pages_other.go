//go:build !linux

package memory

// PreferLargePages does nothing on this system.
func PreferLargePages([]byte) {}

// ReturnPages reports whether the memory was returned to the system. It never is on this system.
func ReturnPages([]byte) bool { return false }
