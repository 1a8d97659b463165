//go:build !linux

package main

func preferLargePages([]uint64) {}
