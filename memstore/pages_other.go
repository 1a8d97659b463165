//go:build !linux

package memstore

func preferLargePages([]slot) {}

func returnPages([]slot) bool { return false }
