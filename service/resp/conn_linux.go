package resp

import (
	"runtime"
	"syscall"
	"unsafe"
)

// serveReady serves the connection. A socket is read from within syscall.RawConn.Read, once it has something to read: a
// connection that waits needs no buffer, and nothing is read in vain.
func (c *conn) serveReady() error {
	socket, ok := c.net.(syscall.Conn)
	if !ok {
		return c.serveCopies()
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return c.serveCopies()
	}
	var failed error
	var descriptor uintptr // valid while the function below runs
	c.raw = func(b []byte) int {
		done := 0
		for done < len(b) {
			n, code := rawWrite(descriptor, b[done:])
			if code == syscall.EINTR {
				continue
			}
			if code != 0 || n == 0 {
				break // the way with a deadline finds out what it is
			}
			done += n
		}
		return done
	}
	turn := func(fd uintptr) bool {
		descriptor = fd
		var done bool
		done, failed = c.turn(fd)
		return done
	}
	err = raw.Read(turn)
	if failed == nil && c.server.isEnding() && !c.closing {
		// Woken by Shutdown: what has been sent is answered.
		_ = raw.Control(func(fd uintptr) { turn(fd) })
	}
	if failed != nil {
		return failed
	}
	if err != nil {
		return ended(err)
	}
	return nil
}

// turn serves what there is to read, and tells whether the connection is at its end.
func (c *conn) turn(fd uintptr) (done bool, failed error) {
	for {
		d, held := c.sit()
		n, code := rawRead(fd, d.in[held:])
		switch {
		case code == syscall.EINTR:
			c.leave(d)
			continue
		case code == syscall.EAGAIN:
			c.leave(d)
			return false, nil
		case code != 0:
			c.leave(d)
			return true, code
		case n == 0:
			c.leave(d)
			return true, nil
		}
		full := held+n == len(d.in)
		failed = c.answer(d, held+n)
		c.leave(d)
		if failed != nil || c.closing {
			return true, failed
		}
		if !full {
			// There was no more. What comes from now on is told.
			return false, nil
		}
		runtime.Gosched() // others have waited
	}
}

// rawRead and rawWrite are read and write without telling the scheduler, which need not know of calls that never wait.

func rawRead(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, code := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), code
}

func rawWrite(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, code := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), code
}
