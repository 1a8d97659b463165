//go:build unix

package downstream

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/headgate/headgate/server/gateway/internal/http1"
	"github.com/headgate/headgate/server/gateway/internal/responsewriter"
	"github.com/headgate/headgate/server/internal/nonblock"
)

// A socket reads from and writes to a connection without TLS. While it waits for bytes, it needs no read buffer. It
// sets a write deadline only if a write blocks, because setting one is expensive.
type socket struct {
	conn     net.Conn
	raw      syscall.RawConn
	receive  func(fd uintptr) bool // readSome, allocated once
	transmit func(fd uintptr) bool // writeSome, allocated once

	in          *readBuffer
	waited      bool // read has waited, because there was nothing to read at first
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

// read waits for bytes and reads them into b. While it waits, an empty b has no memory. waited reports whether there
// was nothing to read at first.
func (s *socket) read(b *readBuffer) (waited bool, err error) {
	s.in, s.waited, s.err = b, false, nil
	err = s.raw.Read(s.receive)
	s.in = nil
	if err == nil {
		err = s.err
	}
	return s.waited, err
}

// readSome reads once. It returns true if read is done. Otherwise it is called again when bytes have arrived.
func (s *socket) readSome(fd uintptr) bool {
	for {
		n, code := nonblock.Read(fd, s.in.room())
		switch {
		case code == syscall.EINTR:
			continue
		case code == syscall.EAGAIN:
			if s.in.empty() {
				s.in.release()
			}
			s.waited = true
			return false
		case code != 0:
			s.err = os.NewSyscallError("read", code)
		case n == 0:
			s.err = io.EOF
		default:
			s.in.advance(n)
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
		n, code := nonblock.Write(fd, s.out)
		switch code {
		case 0:
			s.out = s.out[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			if deadline := s.timeout.WriteDeadline(); !deadline.IsZero() {
				s.deadlineSet = true
				_ = s.conn.SetWriteDeadline(deadline) // if the connection is closed, writing fails
			}
			return false
		default:
			s.err = os.NewSyscallError("write", code)
			return true
		}
	}
	return true
}
