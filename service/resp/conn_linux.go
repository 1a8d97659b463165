package resp

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
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
	c.probing.Store(true)
	for {
		err = raw.Read(turn)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !c.probed.Swap(false) {
			break
		}
		// Whoever wants the end has said so before he set the deadline that this takes away.
		if err = c.net.SetReadDeadline(time.Time{}); err != nil || c.expired.Load() || c.server.isEnding() {
			break
		}
	}
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

// earlyTurns is how often a connection is read until there is nothing more. Later on that would be a call in vain for each
// time that something comes.
const earlyTurns = 2

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
		if failed != nil || c.closing || c.server.ctx.Err() != nil { // nobody else can end who always has more
			return true, failed
		}
		switch {
		case full:
			runtime.Gosched() // others have waited
		case c.turns < earlyTurns:
			c.turns++ // and look for its end, which some send at once
		default:
			// There was no more, and what comes from now on is told. That the client has ended may have come with it, though, and
			// is told no more: the caretaker has it looked for once the connection is silent.
			return false, nil
		}
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
