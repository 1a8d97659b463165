//go:build unix

package http1

import (
	"net"
	"syscall"

	"github.com/headgate/headgate/internal/conns"
)

// RawConn returns what lies below a connection, nil if that is no socket or could be something around one.
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
