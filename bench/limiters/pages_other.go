//go:build !linux

package limiters

func preferLargePages([]uint64) {}
