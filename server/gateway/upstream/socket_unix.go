//go:build unix

package upstream

import (
	"io"
	"net"
	"os"
	"syscall"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/internal/nonblock"
)

// A socket saves system calls on a connection without TLS. Its functions peek and step, which are called by raw, have
// their arguments and results in fields of the socket. So a call does not allocate a closure.
type socket struct {
	raw syscall.RawConn

	// Used by isQuiet:
	peekFunc func(fd uintptr) // peek
	readable bool             // result of peek: there is something to read
	peeked   [1]byte

	// Used by sendAndWait:
	stepFunc       func(fd uintptr) bool // step
	out, in        []byte
	sent, received int  // bytes of out and of in
	waiting        bool // all of out is sent, and in is empty
	err            error
}

// newSocket returns the socket of a connection, or nil if the socket cannot be found. This is so if the connection has
// no socket, or is a wrapper of unknown type.
func newSocket(c net.Conn) *socket {
	raw := http1.RawConn(c)
	if raw == nil {
		return nil
	}
	s := &socket{raw: raw}
	s.peekFunc = s.peek
	s.stepFunc = s.step
	return s
}

// isQuiet reports whether there is nothing to read: no bytes, no end of the stream and no error. It does not block, and
// consumes nothing.
func (s *socket) isQuiet() bool {
	s.readable = true
	return s.raw.Control(s.peekFunc) == nil && !s.readable
}

// peek sets s.readable.
func (s *socket) peek(fd uintptr) {
	for {
		_, code := nonblock.Peek(fd, s.peeked[:])
		if code == syscall.EINTR {
			continue
		}
		s.readable = code != syscall.EAGAIN
		return
	}
}

// sendAndWait sends out, waits for the response, and reads the beginning of it into in. It needs one system call less
// than Write and Read, because it does not try to read before the socket is readable. It returns how many bytes of out
// were sent, and how many bytes n were read into in. If only a part of out was sent and err is nil, the caller must
// send the rest with Write.
func (s *socket) sendAndWait(out, in []byte) (sent, n int, err error) {
	s.out, s.in = out, in
	s.sent, s.received, s.waiting, s.err = 0, 0, false, nil
	// Read calls step, and calls it again once the socket is readable, until step returns true. It also notices a
	// response that arrives before step returns false.
	err = s.raw.Read(s.stepFunc)
	if err == nil {
		err = s.err
	}
	s.out, s.in = nil, nil
	return s.sent, s.received, err
}

// step reports whether sendAndWait is done. If it returns false, it is called again when the socket can be read.
func (s *socket) step(fd uintptr) bool {
	for {
		if !s.waiting {
			n, code := nonblock.Write(fd, s.out)
			switch code {
			case 0:
			case syscall.EINTR:
				continue
			case syscall.EAGAIN:
				return true
			default:
				s.err = os.NewSyscallError("write", code)
				return true
			}
			s.sent = n
			s.waiting = n == len(s.out)
			return !s.waiting
		}
		n, code := nonblock.Read(fd, s.in)
		switch {
		case code == syscall.EINTR:
			continue
		case code == syscall.EAGAIN:
			return false
		case code != 0:
			s.err = os.NewSyscallError("read", code)
		case n == 0:
			s.err = io.EOF
		default:
			s.received = n
		}
		return true
	}
}
