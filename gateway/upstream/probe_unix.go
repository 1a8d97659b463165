//go:build unix

package upstream

import (
	"errors"
	"syscall"
)

const probesSockets = true

// A probe looks whether anything waits in a socket, without waiting and without taking it. It keeps what it would otherwise
// allocate each time.
type probe struct {
	look  func(fd uintptr)
	found bool
	b     [1]byte
}

func (p *probe) init() {
	p.look = func(fd uintptr) {
		for {
			_, _, err := syscall.Recvfrom(int(fd), p.b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			// An end is no error here, and an error other than this is an end.
			p.found = !errors.Is(err, syscall.EAGAIN)
			return
		}
	}
}

func (p *probe) silent(fd syscall.RawConn) bool {
	p.found = true
	err := fd.Control(p.look)
	return err == nil && !p.found
}
