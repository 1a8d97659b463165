//go:build !linux

package memstore

func preferLargePages([]slot) {}

func forget([]slot) bool { return false }
