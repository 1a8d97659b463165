//go:build unix

package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/headgate/headgate/server/gateway/internal/http1"
)

// A socket saves system calls on a connection without TLS. Its fields are the arguments and results of the functions
// that it passes to raw, so that calls do not allocate.
type socket struct {
	raw syscall.RawConn

	peek     func(fd uintptr)
	readable bool
	peeked   [1]byte

	onReadable     func(fd uintptr) bool
	out, in        []byte
	sent, received int
	waiting        bool // all of out is sent, and in is empty
	err            error
}

// newSocket returns the socket of a connection, nil if it has none or is a wrapper of unknown type.
func newSocket(c net.Conn) *socket {
	raw := http1.RawConn(c)
	if raw == nil {
		return nil
	}
	s := &socket{raw: raw}
	s.peek = s.peekAt
	s.onReadable = s.stepAt
	return s
}

// isQuiet reports whether there is nothing to read, neither bytes nor an end or an error. It does not block, and
// consumes nothing.
func (s *socket) isQuiet() bool {
	s.readable = true
	return s.raw.Control(s.peek) == nil && !s.readable
}

func (s *socket) peekAt(fd uintptr) {
	for {
		_, _, err := syscall.Recvfrom(int(fd), s.peeked[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		s.readable = !errors.Is(err, syscall.EAGAIN)
		return
	}
}

// sendAndWait sends out, waits, and reads the beginning of the response into in. Unlike Write and Read, it does not try
// to read before a response can be there. sent is how much of out was sent. If that is not all and there is no error,
// the caller sends the rest by Write.
func (s *socket) sendAndWait(out, in []byte) (sent, n int, err error) {
	s.out, s.in, s.sent, s.received, s.waiting, s.err = out, in, 0, 0, false, nil
	// A response that arrives before step returns false is not missed.
	err = s.raw.Read(s.onReadable)
	if err == nil {
		err = s.err
	}
	s.out, s.in = nil, nil
	return s.sent, s.received, err
}

// stepAt reports whether sendAndWait is done; if not, it is called again when the socket can be read.
func (s *socket) stepAt(fd uintptr) bool {
	for {
		if !s.waiting {
			n, err := syscall.Write(int(fd), s.out)
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case errors.Is(err, syscall.EAGAIN):
				return true
			case err != nil:
				s.err = os.NewSyscallError("write", err)
				return true
			}
			s.sent = n
			s.waiting = n == len(s.out)
			return !s.waiting
		}
		n, err := syscall.Read(int(fd), s.in)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			s.err = os.NewSyscallError("read", err)
		case n == 0:
			s.err = io.EOF
		default:
			s.received = n
		}
		return true
	}
}
