// The race detector notices synchronization by I/O only if package syscall does the I/O.

//go:build unix && (!linux || race)

package nonblock

import (
	"errors"
	"syscall"
)

// Read reads from the socket once. The error is 0 if there is none.
func Read(fd uintptr, b []byte) (int, syscall.Errno) {
	n, err := syscall.Read(int(fd), b)
	return n, number(err)
}

// Write writes to the socket once. The error is 0 if there is none.
func Write(fd uintptr, b []byte) (int, syscall.Errno) {
	n, err := syscall.Write(int(fd), b)
	return n, number(err)
}

// Peek does the same as Read, but the bytes remain in the socket.
func Peek(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, err := syscall.Recvfrom(int(fd), b, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return n, number(err)
}

func number(err error) syscall.Errno {
	var code syscall.Errno
	if err != nil && !errors.As(err, &code) {
		return syscall.EIO
	}
	return code
}
