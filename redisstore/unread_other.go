//go:build !linux

package redisstore

import "syscall"

// unread is not known on this system.
func unread(syscall.Conn) bool { return false }
