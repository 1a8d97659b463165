package topology

import "syscall"

// unread reports whether the kernel has received data on a connection that this process has not read yet.
func unread(c syscall.Conn) bool {
	if c == nil {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false // closed
	}
	var (
		n   int
		buf [1]byte
	)
	const flags = syscall.MSG_PEEK | syscall.MSG_DONTWAIT
	controlErr := raw.Control(func(fd uintptr) { n, _, err = syscall.Recvfrom(int(fd), buf[:], flags) })
	return controlErr == nil && err == nil && n > 0
}
