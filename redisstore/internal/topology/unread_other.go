//go:build !linux

package topology

import "syscall"

// unread returns false: there is no way to find out on this system.
func unread(syscall.Conn) bool { return false }
