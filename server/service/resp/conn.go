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
	countedBytes int64  // bytes of partial that are part of Server.held
	closing      bool
	earlyReads   int

	transaction *transaction     // not nil between MULTI and EXEC
	err         error            // the first write error
	tryWrite    func([]byte) int // writes as much as is possible without blocking; nil if unsupported

	activity
}

// activity is the state of a connection that Server.expireConns reads and changes in its own goroutine. Times are in
// ticks.
type activity struct {
	lastActive   atomic.Int64 // when the last command came
	commandStart atomic.Int64 // when the incomplete command began; 0 if there is none
	expired      atomic.Bool
	probing      atomic.Bool // it may be woken to detect that the client has closed
	probed       atomic.Bool // it was woken for that
}

// A workspace holds the buffers to serve a connection while it has work. A waiting connection has none.
type workspace struct {
	in       []byte
	args     [][]byte
	executor executor
	pipeline pipeline
}

const (
	smallWorkspace = 16 << 10
	// flushAt is the size of buffered replies at which they are sent before all commands are executed.
	flushAt = 16 << 10
	// maxPooledReplies is the largest reply buffer that is reused.
	maxPooledReplies = 2 * flushAt
	// uncountedPartial is the size up to which a waiting connection's buffer is not counted.
	uncountedPartial = 4 << 10
	// drainTimeout is the time for a client that sent garbage to read the error.
	drainTimeout = 250 * time.Millisecond
)

func (s *Server) newWorkspace(size int) *workspace {
	return &workspace{in: make([]byte, size), args: make([][]byte, 0, 8), executor: executor{server: s}}
}

// acquireWorkspace returns a workspace with the bytes of the incomplete command in it.
func (c *conn) acquireWorkspace() (w *workspace, n int) {
	if len(c.partial) > smallWorkspace/2 {
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

func (c *conn) remote() string { return c.net.RemoteAddr().String() }

// past is a deadline that has already expired.
var past = time.Unix(1, 0)

// wake interrupts a blocked read.
func (c *conn) wake() { _ = c.net.SetReadDeadline(past) }

var _ conns.Holder = (*conn)(nil)

// idleTicks is the number of ticks without traffic after which a connection is idle. A decision takes less.
const idleTicks = 3

// ConnKind returns whether the connection is busy, unused or idle.
func (c *conn) ConnKind() conns.Kind {
	idle := c.server.tick.Load()-c.lastActive.Load() >= idleTicks
	switch {
	case !idle || c.expired.Load():
		return conns.Busy
	case c.commandStart.Load() != 0: // nothing or only a part of a command was received
		return conns.Unused
	default:
		return conns.Idle
	}
}

// ClaimConn reports whether the connection is still of that kind. If so, it will end.
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
	var bad protocolError
	if errors.As(err, &bad) {
		c.server.counts.broken.Add(1)
		c.drain()
	}
}

// bufferBytes is the buffer of a connection that cannot signal when it is readable. It holds the buffer while it waits,
// so it is smaller than a workspace.
const bufferBytes = 2 << 10

// serveBuffered serves a connection with its Read and Write.
func (c *conn) serveBuffered() error {
	buffer := make([]byte, bufferBytes)
	for last := false; ; {
		n, err := c.net.Read(buffer)
		if n > 0 {
			w, held := c.acquireWorkspace()
			bad := c.executeAll(w, held+copy(w.in[held:], buffer[:n]))
			c.releaseWorkspace(w)
			if bad != nil || c.closing {
				return bad
			}
		}
		if err == nil {
			continue
		}
		if last || !errors.Is(err, os.ErrDeadlineExceeded) || c.expired.Load() || !c.server.isEnding() {
			return ignoreNormalEnd(err)
		}
		last = true // woken by Shutdown: received commands are still executed
		if err := c.net.SetReadDeadline(time.Now().Add(finalReadTimeout)); err != nil {
			return ignoreNormalEnd(err)
		}
	}
}

// finalReadTimeout is how long an ending connection is read for commands that were already sent.
const finalReadTimeout = 25 * time.Millisecond

// ignoreNormalEnd returns nil for errors that are a normal end of a connection.
func ignoreNormalEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// executeAll executes the complete commands in w.in[:n], sends the replies, and keeps the rest.
func (c *conn) executeAll(w *workspace, n int) (bad error) {
	b, at := w.in[:n], 0
	e := &w.executor
	executed := false
	for !c.closing {
		var size int
		limits := &c.server.bounds
		w.args, size, bad = limits.parse(b[at:], w.args[:0])
		if bad == nil && !c.authed && len(w.args) > maxUnauthenticatedArgs {
			bad = errAnonymous
		}
		if bad != nil {
			w.pipeline.decideAll(e)
			e.fail("ERR " + bad.Error())
			break
		}
		if size == 0 {
			break
		}
		at += size
		if len(w.args) == 0 {
			continue
		}
		executed = true
		c.executeWithReplyMode(w)
		if len(e.out) >= flushAt {
			c.flush(e)
			if c.server.ctx.Err() != nil { // the context of Shutdown has ended
				c.closing = true
			}
		}
	}
	w.pipeline.decideAll(e)
	if bad == nil {
		bad = c.keepPartial(b[at:], executed, e)
	}
	if e.commands == 1 && c.server.oneCPU {
		// Let connections whose commands came at the same time decide first, so that the replies go out together and a
		// client that waits for several is woken once.
		runtime.Gosched()
	}
	c.flush(e)
	e.addCounts()
	if c.err != nil {
		return c.err
	}
	return bad
}

// maxUnauthenticatedArgs bounds the arguments of a command of an unauthenticated client.
const maxUnauthenticatedArgs = 16

// executeWithReplyMode executes the command in w.args, and drops the reply if CLIENT REPLY says so.
func (c *conn) executeWithReplyMode(w *workspace) {
	if c.replies == replyOn {
		c.execute(&w.executor, &w.pipeline, w.args)
		return
	}
	if c.replies == replySkipNext {
		c.replies = replySkip
	}
	w.pipeline.decideAll(&w.executor)
	before := len(w.executor.out)
	c.execute(&w.executor, &w.pipeline, w.args)
	if c.noReply() && len(w.pipeline.pending) == 0 {
		w.executor.out = w.executor.out[:before]
	}
	if c.replies == replySkip {
		c.replies = replyOn
	}
}

// keepPartial stores an incomplete command and when it began.
func (c *conn) keepPartial(rest []byte, executed bool, e *executor) error {
	now, start := c.server.tick.Load(), c.commandStart.Load()
	if executed && c.lastActive.Load() != now {
		c.lastActive.Store(now)
	}
	switch {
	case !c.authed: // the time for one command is also the time to show the token
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

// storePartial stores an incomplete command. It returns false if Limits.Held is exceeded.
func (c *conn) storePartial(rest []byte) bool {
	c.partial = append(c.partial[:0], rest...)
	if len(rest) == 0 {
		c.partial = nil
	}
	large := int64(0)
	if size := cap(c.partial); size > uncountedPartial {
		large = int64(size)
	}
	if large == c.countedBytes {
		return true
	}
	held := c.server.held.Add(large - c.countedBytes)
	c.countedBytes = large
	return large == 0 || held <= int64(c.server.config.Limits.Held)
}

// flush sends the replies.
func (c *conn) flush(e *executor) {
	b := e.out
	e.out = e.out[:0]
	if len(b) == 0 || c.err != nil {
		return
	}
	if c.tryWrite != nil {
		if b = b[c.tryWrite(b):]; len(b) == 0 {
			return
		}
	}
	if c.err = c.net.SetWriteDeadline(time.Now().Add(c.server.config.Limits.WriteTimeout)); c.err == nil {
		_, c.err = c.net.Write(b)
	}
	if c.err != nil {
		c.closing = true
	}
}

// drain lets a client read the error before the connection closes: closing while it still sends would discard the
// reply.
func (c *conn) drain() {
	if conns.CloseWrite(c.net) != nil || c.net.SetReadDeadline(time.Now().Add(drainTimeout)) != nil {
		return
	}
	// An error means that the client has closed the connection.
	_, _ = io.CopyN(io.Discard, c.net, int64(4*c.server.config.Limits.Command))
}
