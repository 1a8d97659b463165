package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/internal/conns"
)

// A conn is a client connection. Only its own goroutine reads and writes it.
type conn struct {
	session
	server       *Server
	net          net.Conn
	id           int64
	partial      []byte // received bytes of an incomplete command
	countedBytes int64  // the part of Server.heldBytes for partial
	closing      bool   // the connection ends after the replies are sent
	earlyReads   int    // on Linux, the number of reads after everything was read; see maxEarlyReads

	transaction *transaction     // not nil between MULTI and EXEC
	writeErr    error            // the first write error
	tryWrite    func([]byte) int // writes as much as possible without blocking; nil if unsupported

	activity
}

// activity is the state that a connection shares with the goroutine of Server.expireConns. Times are values of
// Server.tick.
type activity struct {
	lastActive   atomic.Int64 // when the last command was received
	commandStart atomic.Int64 // when the incomplete command began; 0 if there is none
	expired      atomic.Bool  // the connection must end
	canProbe     atomic.Bool  // after a wake-up, the connection checks whether the client has closed it
	probe        atomic.Bool  // set before such a wake-up
}

// A workspace contains the buffers for executing commands. A connection has one only while it executes commands.
type workspace struct {
	in       []byte
	args     [][]byte
	executor executor
	pipeline pipeline
}

const (
	// smallWorkspace is the size of the read buffer of a usual workspace, in bytes.
	smallWorkspace = 16 << 10
	// flushAt is a size of buffered replies, in bytes. At this size the replies are sent, even if commands are left to
	// execute.
	flushAt = 16 << 10
	// maxPooledReplies is the maximum size, in bytes, of a reply buffer that is used again.
	maxPooledReplies = 2 * flushAt
	// uncountedPartial is the maximum size, in bytes, of a buffer of an incomplete command that does not count for
	// Limits.Held.
	uncountedPartial = 4 << 10
	// drainTimeout is the time that a client gets to read the error reply for malformed input.
	drainTimeout = 250 * time.Millisecond
)

func (s *Server) newWorkspace(size int) *workspace {
	return &workspace{in: make([]byte, size), args: make([][]byte, 0, 8), executor: executor{server: s}}
}

// acquireWorkspace returns a workspace. Its read buffer begins with the n bytes of the incomplete command.
func (c *conn) acquireWorkspace() (w *workspace, n int) {
	if len(c.partial) > smallWorkspace/2 { // leave room for the rest of the command
		w = c.server.largeWorkspaces.Get().(*workspace)
	} else {
		w = c.server.workspaces.Get().(*workspace)
	}
	return w, copy(w.in, c.partial)
}

// releaseWorkspace returns a workspace to its pool.
func (c *conn) releaseWorkspace(w *workspace) {
	if cap(w.executor.out) > maxPooledReplies {
		w.executor.out = nil
	}
	w.executor.out = w.executor.out[:0]
	if len(w.in) > smallWorkspace {
		c.server.largeWorkspaces.Put(w)
	} else {
		c.server.workspaces.Put(w)
	}
}

func (c *conn) remoteAddr() string { return c.net.RemoteAddr().String() }

// pastDeadline is a deadline that has already expired.
var pastDeadline = time.Unix(1, 0)

// wake interrupts a blocked read.
func (c *conn) wake() { _ = c.net.SetReadDeadline(pastDeadline) }

var _ conns.Holder = (*conn)(nil)

// idleAfter is the number of ticks without traffic after which a connection is idle. A decision takes less time.
const idleAfter = 3

// ConnKind returns whether the connection is busy, unused or idle. The server closes unused and idle connections to
// make room for new ones.
func (c *conn) ConnKind() conns.Kind {
	silent := c.server.tick.Load()-c.lastActive.Load() >= idleAfter
	switch {
	case !silent || c.expired.Load():
		return conns.Busy
	case c.commandStart.Load() != 0: // no command yet, or an incomplete one
		return conns.Unused
	default:
		return conns.Idle
	}
}

// ClaimConn reports whether the connection is still of the given kind. If so, the connection executes no further
// command, and the caller closes it.
func (c *conn) ClaimConn(kind conns.Kind) bool {
	return c.ConnKind() == kind && c.expired.CompareAndSwap(false, true)
}

// serve serves the connection until it ends.
func (c *conn) serve() {
	defer c.server.removeConn(c)
	defer func() { _ = c.net.Close() }()
	err := c.serveReady()
	c.storePartial(nil)
	c.endTransaction()
	var malformed protocolError
	if errors.As(err, &malformed) {
		c.server.counts.broken.Add(1)
		c.drain()
	}
}

// bufferBytes is the size of the read buffer of serveBuffered. A connection keeps this buffer even while it waits, so
// the buffer is smaller than that of a workspace.
const bufferBytes = 2 << 10

// serveBuffered serves a connection that cannot signal when it is readable, for example one with TLS.
func (c *conn) serveBuffered() error {
	buffer := make([]byte, bufferBytes)
	for lastRead := false; ; {
		n, err := c.net.Read(buffer)
		if n > 0 {
			w, partial := c.acquireWorkspace()
			execErr := c.executeAll(w, partial+copy(w.in[partial:], buffer[:n]))
			c.releaseWorkspace(w)
			if execErr != nil || c.closing {
				return execErr
			}
		}
		if err == nil {
			continue
		}
		wokenByShutdown := errors.Is(err, os.ErrDeadlineExceeded) && !c.expired.Load() && c.server.isShuttingDown()
		if lastRead || !wokenByShutdown {
			return ignoreNormalEnd(err)
		}
		lastRead = true // commands that the client has already sent are still executed
		if err := c.net.SetReadDeadline(time.Now().Add(finalReadTimeout)); err != nil {
			return ignoreNormalEnd(err)
		}
	}
}

// finalReadTimeout is the time after the start of Shutdown in which a connection reads commands that the client has
// already sent.
const finalReadTimeout = 25 * time.Millisecond

// ignoreNormalEnd returns nil if err is a normal end of a connection, and err otherwise.
func ignoreNormalEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// executeAll executes the complete commands in w.in[:n] and sends their replies. It stores the bytes of an incomplete
// command in c.partial. The error is a protocolError or a write error.
func (c *conn) executeAll(w *workspace, n int) (err error) {
	b, pos := w.in[:n], 0
	e := &w.executor
	executed := false
	for !c.closing {
		var size int
		w.args, size, err = c.server.sizeLimits.parse(b[pos:], w.args[:0])
		if err == nil && !c.authenticated && len(w.args) > maxUnauthenticatedArgs {
			err = errUnauthenticated
		}
		if err != nil {
			w.pipeline.decideAll(e)
			e.fail("ERR " + err.Error())
			break
		}
		if size == 0 {
			break
		}
		pos += size
		if len(w.args) == 0 {
			continue
		}
		executed = true
		c.executeWithReplyMode(w)
		if len(e.out) >= flushAt {
			c.flush(e)
			if c.server.decideCtx.Err() != nil { // the context of Shutdown has ended
				c.closing = true
			}
		}
	}
	w.pipeline.decideAll(e)
	if err == nil {
		err = c.keepPartial(b[pos:], executed, e)
	}
	if e.commandCount == 1 && c.server.yields {
		// Let other connections execute their commands first. Then all replies are sent together, and a client program that
		// waits for several replies is woken only once.
		runtime.Gosched()
	}
	c.flush(e)
	e.addCounts()
	if c.writeErr != nil {
		return c.writeErr
	}
	return err
}

// maxUnauthenticatedArgs is the maximum number of arguments in a command of an unauthenticated client.
const maxUnauthenticatedArgs = 16

// executeWithReplyMode executes the command in w.args. It drops the reply if the client has turned replies off with
// CLIENT REPLY.
func (c *conn) executeWithReplyMode(w *workspace) {
	if c.replyMode == replyOn {
		c.execute(&w.executor, &w.pipeline, w.args)
		return
	}
	if c.replyMode == replySkipNext {
		c.replyMode = replySkip
	}
	w.pipeline.decideAll(&w.executor)
	length := len(w.executor.out)
	c.execute(&w.executor, &w.pipeline, w.args)
	if c.dropsReply() && len(w.pipeline.pending) == 0 { // decideAll drops the replies of pending decisions
		w.executor.out = w.executor.out[:length]
	}
	if c.replyMode == replySkip {
		c.replyMode = replyOn
	}
}

// keepPartial stores the bytes of an incomplete command. For the timeouts, it records when the command began. executed
// reports whether a command was executed since the last call.
func (c *conn) keepPartial(rest []byte, executed bool, e *executor) error {
	now, start := c.server.tick.Load(), c.commandStart.Load()
	if executed && c.lastActive.Load() != now {
		c.lastActive.Store(now)
	}
	switch {
	case !c.authenticated: // CommandTimeout is also the maximum time until the client sends the token
		if start == 0 {
			c.commandStart.Store(now)
		}
	case len(rest) > 0 && (executed || start == 0):
		c.commandStart.Store(now)
	case len(rest) == 0 && executed && start != 0:
		c.commandStart.Store(0)
	}
	if len(rest) == 0 && c.partial == nil {
		return nil
	}
	if !c.storePartial(rest) {
		e.fail("ERR out of memory for incomplete commands")
		return errTooLong
	}
	return nil
}

// storePartial stores the bytes of an incomplete command, or nil if there is none. It returns false if all connections
// together now have more than Limits.Held.
func (c *conn) storePartial(rest []byte) bool {
	c.partial = append(c.partial[:0], rest...)
	if len(rest) == 0 {
		c.partial = nil
	}
	counted := int64(0)
	if size := cap(c.partial); size > uncountedPartial {
		counted = int64(size)
	}
	if counted == c.countedBytes {
		return true
	}
	total := c.server.heldBytes.Add(counted - c.countedBytes)
	c.countedBytes = counted
	return counted == 0 || total <= int64(c.server.config.Limits.Held)
}

// flush sends the replies in e.out and clears them. A write error is stored in c.writeErr and closes the connection.
func (c *conn) flush(e *executor) {
	b := e.out
	e.out = e.out[:0]
	if len(b) == 0 || c.writeErr != nil {
		return
	}
	if c.tryWrite != nil {
		if b = b[c.tryWrite(b):]; len(b) == 0 {
			return
		}
	}
	c.writeErr = c.net.SetWriteDeadline(time.Now().Add(c.server.config.Limits.WriteTimeout))
	if c.writeErr == nil {
		_, c.writeErr = c.net.Write(b)
	}
	if c.writeErr != nil {
		c.closing = true
	}
}

// drain reads and discards the data that the client still sends. If the server closed the connection with unread data,
// the network would discard the error reply before the client reads it.
func (c *conn) drain() {
	if conns.CloseWrite(c.net) != nil || c.net.SetReadDeadline(time.Now().Add(drainTimeout)) != nil {
		return
	}
	// An error means that the client has closed the connection or drainTimeout has expired.
	_, _ = io.CopyN(io.Discard, c.net, int64(4*c.server.config.Limits.Command))
}
