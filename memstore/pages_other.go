//go:build !linux

package memstore

func preferLargePages([]slot) {}

// returnPages reports whether the memory was returned to the system. It never is on this system.
func returnPages([]slot) bool { return false }
