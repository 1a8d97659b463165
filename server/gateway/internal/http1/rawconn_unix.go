//go:build unix

package http1

import (
	"net"
	"syscall"

	"github.com/headgate/headgate/server/internal/conns"
)

// RawConn returns the socket of a connection. It returns nil if c has no socket or is a wrapper of an unknown
// type.
func RawConn(c net.Conn) syscall.RawConn {
	var raw syscall.RawConn
	var err error
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err = c.SyscallConn()
	case *net.UnixConn:
		raw, err = c.SyscallConn()
	case *conns.Conn:
		return RawConn(c.Conn)
	}
	if err != nil {
		return nil
	}
	return raw
}
