package gateway

import (
	"net"
	"syscall"
)

// refuseNew has the kernel ignore clients that begin to connect to a listener, so that it can be closed without resetting
// connections that are complete and not yet accepted. Who is ignored asks again within a second, and finds it closed, or
// somebody else there.
func refuseNew(l *net.TCPListener) error {
	const (
		flags = 13 // where they are in the header of TCP, which a filter of a TCP socket sees first
		syn   = 0x02
	)
	filter := []syscall.SockFilter{
		{Code: syscall.BPF_LD | syscall.BPF_B | syscall.BPF_ABS, K: flags},
		{Code: syscall.BPF_JMP | syscall.BPF_JSET | syscall.BPF_K, Jf: 1, K: syn},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: 0}, // ignore it
		{Code: syscall.BPF_RET | syscall.BPF_K, K: 0xffffffff},
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.AttachLsf(int(fd), filter) //nolint:staticcheck // what it recommends instead is a module of its own
	})
	if err != nil {
		return err
	}
	return failed
}
