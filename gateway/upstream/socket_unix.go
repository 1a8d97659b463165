//go:build unix

package upstream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/headgate/headgate/gateway/internal/http1"
)

// A socket is what lies below a connection without TLS, and allows for fewer calls of the system than its methods do. It keeps
// what would otherwise be allocated each time.
type socket struct {
	raw syscall.RawConn

	peek  func(fd uintptr)
	found bool
	b     [1]byte

	step    func(fd uintptr) bool
	out, in []byte
	sent, n int
	waiting bool // all is sent
	err     error
}

// newSocket returns the socket of a connection, nil if it has none or could be something around it.
func newSocket(c net.Conn) *socket {
	raw := http1.RawConn(c)
	if raw == nil {
		return nil
	}
	s := &socket{raw: raw}
	s.peek = s.peekAt
	s.step = s.stepAt
	return s
}

// silent reports whether nothing waits to be read, not even an end or an error. It does not wait itself, and takes nothing.
func (s *socket) silent() bool {
	s.found = true
	return s.raw.Control(s.peek) == nil && !s.found
}

func (s *socket) peekAt(fd uintptr) {
	for {
		_, _, err := syscall.Recvfrom(int(fd), s.b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		s.found = !errors.Is(err, syscall.EAGAIN)
		return
	}
}

// ask sends out, waits, and reads the beginning of the answer: as Write and Read would do, but without looking for the answer
// when it cannot be there yet. sent is how much was sent. If that is not all, and there is no error, the rest is to be sent by
// Write.
func (s *socket) ask(out, in []byte) (sent, n int, err error) {
	s.out, s.in, s.sent, s.n, s.waiting, s.err = out, in, 0, 0, false, nil
	// What becomes readable after this has begun is not missed, even before step says that it waits.
	err = s.raw.Read(s.step)
	if err == nil {
		err = s.err
	}
	s.out, s.in = nil, nil
	return s.sent, s.n, err
}

// stepAt reports whether ask is done; if not, it is called again when something can be read.
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
			s.n = n
		}
		return true
	}
}
