//go:build !race

package nonblock

import (
	"syscall"
	"unsafe"
)

// The conversion of a slice's pointer in the argument list of a raw system call keeps the slice alive during the call.

// Read reads from the socket once. The error is 0 if there is none.
func Read(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, code := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), code
}

// Write writes to the socket once. The error is 0 if there is none.
func Write(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, code := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), code
}

// Peek does the same as Read, but the bytes remain in the socket.
func Peek(fd uintptr, b []byte) (int, syscall.Errno) {
	const flags = syscall.MSG_PEEK | syscall.MSG_DONTWAIT
	n, _, code := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd,
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
	return int(n), code
}
