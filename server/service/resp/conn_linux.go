package resp

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/headgate/headgate/server/internal/nonblock"
)

// serveReady serves the connection until it ends. It reads a socket inside syscall.RawConn.Read, when the socket is
// readable. So a waiting connection needs no buffer, and the kernel is not asked to read an empty socket.
func (c *conn) serveReady() error {
	socket, ok := c.net.(syscall.Conn)
	if !ok {
		return c.serveBuffered()
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return c.serveBuffered()
	}
	var serveErr error
	var socketFD uintptr // the file descriptor for tryWrite; valid while onReadable runs
	c.tryWrite = func(b []byte) int {
		written := 0
		for written < len(b) {
			n, code := nonblock.Write(socketFD, b[written:])
			if code == syscall.EINTR {
				continue
			}
			if code != 0 || n == 0 {
				break // flush writes the rest with a deadline, and gets the error
			}
			written += n
		}
		return written
	}
	onReadable := func(fd uintptr) bool {
		socketFD = fd
		var done bool
		done, serveErr = c.serveReadable(fd)
		return done
	}
	c.canProbe.Store(true)
	for {
		err = raw.Read(onReadable)
		wokenByProbe := errors.Is(err, os.ErrDeadlineExceeded) && c.probe.Swap(false)
		if !wokenByProbe {
			break
		}
		// Continue to read without a deadline. This call may clear a deadline that another goroutine has set to end the
		// connection. That goroutine sets expired or shuttingDown before the deadline, so the checks below notice it.
		err = c.net.SetReadDeadline(time.Time{})
		if err != nil || c.expired.Load() || c.server.isShuttingDown() {
			break
		}
	}
	if serveErr == nil && c.server.isShuttingDown() && !c.closing {
		// Execute the commands that the client has already sent.
		_ = raw.Control(func(fd uintptr) { onReadable(fd) })
	}
	if serveErr != nil {
		return serveErr
	}
	if err != nil {
		return ignoreNormalEnd(err)
	}
	return nil
}

// maxEarlyReads is the number of times that a connection is read again although everything was read. Such a read
// detects a client that closes immediately. After every message it would be a wasted system call.
const maxEarlyReads = 2

// serveReadable executes the commands in the readable bytes, and reports whether the connection is done and must be
// closed.
func (c *conn) serveReadable(fd uintptr) (done bool, err error) {
	for {
		w, partial := c.acquireWorkspace()
		n, code := nonblock.Read(fd, w.in[partial:])
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
		full := partial+n == len(w.in)
		err = c.executeAll(w, partial+n)
		c.releaseWorkspace(w)
		// If a client never stops sending, only the check of decideCtx ends its connection after the context of Shutdown
		// has ended.
		if err != nil || c.closing || c.server.decideCtx.Err() != nil {
			return true, err
		}
		switch {
		case full: // there may be more to read
			runtime.Gosched() // let other connections run first
		case c.earlyReads < maxEarlyReads:
			c.earlyReads++
		default:
			// Everything was read, and new data wakes this goroutine again. But if the client sent its last data and then
			// closed the connection, nothing wakes this goroutine. So Server.expireConns wakes it for another read when the
			// client has sent nothing for a while.
			return false, nil
		}
	}
}
