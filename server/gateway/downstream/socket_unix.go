//go:build unix

package downstream

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// A socket writes to a connection without TLS. It sets a deadline only if a write blocks, because setting one is
// expensive.
type socket struct {
	conn net.Conn
	raw  syscall.RawConn
	step func(fd uintptr) bool // writeSome, allocated once

	out         []byte
	timeout     *writeTimeout
	deadlineSet bool
	err         error
}

// newSocket returns the socket of a connection, nil if it has none or is a wrapper of unknown type.
func newSocket(c net.Conn) *socket {
	raw := http1.RawConn(c)
	if raw == nil {
		return nil
	}
	s := &socket{conn: c, raw: raw}
	s.step = s.writeSome
	return s
}

// write writes all of b, within the timeout if it blocks.
func (s *socket) write(b []byte, timeout *writeTimeout) error {
	s.out, s.timeout, s.err = b, timeout, nil
	err := s.raw.Write(s.step)
	if s.deadlineSet {
		s.deadlineSet = false
		_ = s.conn.SetWriteDeadline(time.Time{}) // if the connection is closed, the next write fails
	}
	s.out, s.timeout = nil, nil
	if err == nil {
		err = s.err
	}
	return err
}

// writeSome reports whether write is done; if not, it is called again when the socket can be written to.
func (s *socket) writeSome(fd uintptr) bool {
	for len(s.out) > 0 {
		n, err := syscall.Write(int(fd), s.out)
		switch {
		case n > 0:
			s.out = s.out[n:]
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			if by := s.timeout.deadline(); !by.IsZero() {
				s.deadlineSet = true
				_ = s.conn.SetWriteDeadline(by) // if the connection is closed, writing fails
			}
			return false
		default:
			s.err = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}
