//go:build unix

package downstream

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/internal/responsewriter"
)

// A socket reads from and writes to a connection without TLS. While it waits for bytes, it needs no read buffer. It
// sets a write deadline only if a write blocks, because setting one is expensive.
type socket struct {
	conn     net.Conn
	raw      syscall.RawConn
	receive  func(fd uintptr) bool // readSome, allocated once
	transmit func(fd uintptr) bool // writeSome, allocated once

	in          *readBuffer
	out         []byte
	timeout     *responsewriter.Timeout
	deadlineSet bool
	err         error
}

// newSocket returns the socket of a connection, or nil if the connection has none or its type is unknown.
func newSocket(c net.Conn) *socket {
	raw := http1.RawConn(c)
	if raw == nil {
		return nil
	}
	s := &socket{conn: c, raw: raw}
	s.receive, s.transmit = s.readSome, s.writeSome
	return s
}

// read waits for bytes and reads them into b. While it waits, an empty b has no memory.
func (s *socket) read(b *readBuffer) error {
	s.in, s.err = b, nil
	err := s.raw.Read(s.receive)
	s.in = nil
	if err == nil {
		err = s.err
	}
	return err
}

// readSome reads once. It returns true if read is done. Otherwise it is called again when bytes have arrived.
func (s *socket) readSome(fd uintptr) bool {
	for {
		n, err := syscall.Read(int(fd), s.in.room())
		switch {
		case n > 0:
			s.in.added(n)
			return true
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			if s.in.empty() {
				s.in.release()
			}
			return false
		case err != nil:
			s.err = os.NewSyscallError("read", err)
		default:
			s.err = io.EOF
		}
		return true
	}
}

// write writes all of b, within the timeout if it blocks.
func (s *socket) write(b []byte, timeout *responsewriter.Timeout) error {
	s.out, s.timeout, s.err = b, timeout, nil
	err := s.raw.Write(s.transmit)
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

// writeSome writes until the socket would block. It returns true if write is done. Otherwise it is called again when
// the socket accepts more bytes.
func (s *socket) writeSome(fd uintptr) bool {
	for len(s.out) > 0 {
		n, err := syscall.Write(int(fd), s.out)
		switch {
		case n > 0:
			s.out = s.out[n:]
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			if deadline := s.timeout.WriteDeadline(); !deadline.IsZero() {
				s.deadlineSet = true
				_ = s.conn.SetWriteDeadline(deadline) // if the connection is closed, writing fails
			}
			return false
		default:
			s.err = os.NewSyscallError("write", err)
			return true
		}
	}
	return true
}
