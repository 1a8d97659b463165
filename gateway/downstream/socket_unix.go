//go:build unix

package downstream

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/headgate/headgate/gateway/internal/http1"
)

// A socket is what lies below a connection without TLS. It writes without a deadline as long as nobody has to wait, since to set
// one takes time.
type socket struct {
	conn net.Conn
	raw  syscall.RawConn
	step func(fd uintptr) bool // made once

	out    []byte
	bounds *bounds
	armed  bool
	err    error
}

// newSocket returns the socket of a connection, nil if it has none or could be something around it.
func newSocket(c net.Conn) *socket {
	raw := http1.RawConn(c)
	if raw == nil {
		return nil
	}
	s := &socket{conn: c, raw: raw}
	s.step = s.stepAt
	return s
}

// write writes all of b. If it has to wait, then within bounds.
func (s *socket) write(b []byte, within *bounds) error {
	s.out, s.bounds, s.err = b, within, nil
	err := s.raw.Write(s.step)
	if s.armed {
		s.armed = false
		_ = s.conn.SetWriteDeadline(time.Time{}) // if the connection is gone, the next write says so
	}
	s.out, s.bounds = nil, nil
	if err == nil {
		err = s.err
	}
	return err
}

// stepAt reports whether write is done; if not, it is called again when more can be written.
func (s *socket) stepAt(fd uintptr) bool {
	for len(s.out) > 0 {
		n, err := syscall.Write(int(fd), s.out)
		switch {
		case n > 0:
			s.out = s.out[n:]
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			if by := s.bounds.deadline(); !by.IsZero() {
				s.armed = true
				_ = s.conn.SetWriteDeadline(by) // if the connection is gone, writing says so
			}
			return false
		default:
			s.err = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}
