package topology

import "syscall"

// unread reports whether the kernel has received data on a connection that was not read yet.
func unread(c syscall.Conn) bool {
	if c == nil {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return false // closed
	}
	var (
		n    int
		peek [1]byte
	)
	const flags = syscall.MSG_PEEK | syscall.MSG_DONTWAIT
	if raw.Control(func(fd uintptr) { n, _, err = syscall.Recvfrom(int(fd), peek[:], flags) }) != nil {
		return false
	}
	return err == nil && n > 0
}
