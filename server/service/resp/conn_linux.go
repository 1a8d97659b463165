package resp

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// serveReady serves the connection. Sockets are read inside syscall.RawConn.Read, once they are readable: a waiting
// connection needs no buffer, and no read is wasted.
func (c *conn) serveReady() error {
	socket, ok := c.net.(syscall.Conn)
	if !ok {
		return c.serveBuffered()
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return c.serveBuffered()
	}
	var failed error
	var descriptor uintptr // valid while the function below runs
	c.tryWrite = func(b []byte) int {
		done := 0
		for done < len(b) {
			n, code := rawWrite(descriptor, b[done:])
			if code == syscall.EINTR {
				continue
			}
			if code != 0 || n == 0 {
				break // the write with a deadline reports the error
			}
			done += n
		}
		return done
	}
	turn := func(fd uintptr) bool {
		descriptor = fd
		var done bool
		done, failed = c.serveReadable(fd)
		return done
	}
	c.probing.Store(true)
	for {
		err = raw.Read(turn)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !c.probed.Swap(false) {
			break
		}
		// A request to end is recorded before the deadline that is cleared here.
		if err = c.net.SetReadDeadline(time.Time{}); err != nil || c.expired.Load() || c.server.isEnding() {
			break
		}
	}
	if failed == nil && c.server.isEnding() && !c.closing {
		// Woken by Shutdown: received commands are still executed.
		_ = raw.Control(func(fd uintptr) { turn(fd) })
	}
	if failed != nil {
		return failed
	}
	if err != nil {
		return ignoreNormalEnd(err)
	}
	return nil
}

// maxEarlyReads is how often a connection is read until it would block. Later that would waste a system call for each
// message.
const maxEarlyReads = 2

// serveReadable serves the readable bytes and reports whether the connection is at its end.
func (c *conn) serveReadable(fd uintptr) (done bool, failed error) {
	for {
		w, held := c.acquireWorkspace()
		n, code := rawRead(fd, w.in[held:])
		switch {
		case code == syscall.EINTR:
			c.releaseWorkspace(w)
			continue
		case code == syscall.EAGAIN:
			c.releaseWorkspace(w)
			return false, nil
		case code != 0:
			c.releaseWorkspace(w)
			return true, code
		case n == 0:
			c.releaseWorkspace(w)
			return true, nil
		}
		full := held+n == len(w.in)
		failed = c.executeAll(w, held+n)
		c.releaseWorkspace(w)
		if failed != nil || c.closing || c.server.ctx.Err() != nil { // a client that sends without pause ends only here
			return true, failed
		}
		switch {
		case full:
			runtime.Gosched() // let other connections run
		case c.earlyReads < maxEarlyReads:
			c.earlyReads++ // and check for the end, which some clients send at once
		default:
			// Everything was read, and new data wakes this goroutine again. The client's close may have come with the
			// data and does not wake it: Server.expireConns probes for that once the connection is silent.
			return false, nil
		}
	}
}

// rawRead and rawWrite are system calls without the scheduler's bookkeeping, because they never block.

func rawRead(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, code := syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), code
}

func rawWrite(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, code := syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return int(n), code
}
