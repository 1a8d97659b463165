package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/conns"
)

// A conn is a connection. Its goroutine alone reads and writes it.
type conn struct {
	session
	server  *Server
	net     net.Conn
	id      int64
	rest    []byte // what has come of a command that is not whole
	counted int64  // how much of rest is part of Server.held
	closing bool
	turns   int

	transaction *transaction     // between MULTI and EXEC, else nil
	err         error            // that of writing
	raw         func([]byte) int // writes what can be written at once, if that is possible

	// For the caretaker, in ticks.
	active  atomic.Int64 // when a command came last
	begun   atomic.Int64 // when the command began that is not whole; 0 if there is none
	expired atomic.Bool
	probing atomic.Bool // it can be woken to look whether the client has ended
	probed  atomic.Bool // it was
}

// A desk is what it takes to serve a connection while there is something to do. A connection that waits has none.
type desk struct {
	in    []byte
	args  [][]byte
	clerk clerk
	jobs  jobs
}

const (
	smallDesk = 16 << 10
	// flushAt is how much is answered before it is sent although more could be.
	flushAt = 16 << 10
	// keptOut is how large a buffer for answers may be that is kept for others.
	keptOut = 2 * flushAt
	// keptRest is how large a buffer of a connection may be that is kept while it waits.
	keptRest = 4 << 10
	// lingering is how long who sent garbage has to read why it is closed.
	lingering = 250 * time.Millisecond
)

func (s *Server) newDesk(size int) *desk {
	return &desk{in: make([]byte, size), args: make([][]byte, 0, 8), clerk: clerk{server: s}}
}

// sit returns a desk with what has come before of the command on it.
func (c *conn) sit() (d *desk, n int) {
	if len(c.rest) > smallDesk/2 {
		d = c.server.largeDesks.Get().(*desk)
	} else {
		d = c.server.desks.Get().(*desk)
	}
	return d, copy(d.in, c.rest)
}

// leave puts a desk back.
func (c *conn) leave(d *desk) {
	if cap(d.clerk.out) > keptOut {
		d.clerk.out = nil
	}
	d.clerk.out = d.clerk.out[:0]
	if len(d.in) > smallDesk {
		c.server.largeDesks.Put(d)
	} else {
		c.server.desks.Put(d)
	}
}

func (c *conn) remote() string { return c.net.RemoteAddr().String() }

// past is a time that is over.
var past = time.Unix(1, 0)

// wake has the connection look why it was woken.
func (c *conn) wake() { _ = c.net.SetReadDeadline(past) }

var _ conns.Holder = (*conn)(nil)

// silentTicks is for how many ticks a connection must have been silent to be idle. A decision takes less.
const silentTicks = 3

// ConnKind returns what the connection is doing.
func (c *conn) ConnKind() conns.Kind {
	silent := c.server.tick.Load()-c.active.Load() >= silentTicks
	switch {
	case !silent || c.expired.Load():
		return conns.Busy
	case c.begun.Load() != 0: // nothing came, or a part of a command
		return conns.Unused
	default:
		return conns.Idle
	}
}

// ClaimConn reports whether the connection is still of that kind, and has it end.
func (c *conn) ClaimConn(kind conns.Kind) bool {
	return c.ConnKind() == kind && c.expired.CompareAndSwap(false, true)
}

// serve serves the connection to its end.
func (c *conn) serve() {
	defer c.server.gone(c)
	defer func() { _ = c.net.Close() }()
	err := c.serveReady()
	c.hold(nil)
	c.endTransaction()
	var bad protocolError
	if errors.As(err, &bad) {
		c.server.counts.broken.Add(1)
		c.linger()
	}
}

// copyBytes is what a connection reads at a time that cannot tell when there is something to read: so much it holds while it
// waits, where a desk would be too much.
const copyBytes = 2 << 10

// serveCopies serves a connection by its Read and Write.
func (c *conn) serveCopies() error {
	room := make([]byte, copyBytes)
	for last := false; ; {
		n, err := c.net.Read(room)
		if n > 0 {
			d, held := c.sit()
			bad := c.answer(d, held+copy(d.in[held:], room[:n]))
			c.leave(d)
			if bad != nil || c.closing {
				return bad
			}
		}
		if err == nil {
			continue
		}
		if last || !errors.Is(err, os.ErrDeadlineExceeded) || c.expired.Load() || !c.server.isEnding() {
			return ended(err)
		}
		last = true // Woken by Shutdown: what has been sent is answered.
		if err := c.net.SetReadDeadline(time.Now().Add(lastLook)); err != nil {
			return ended(err)
		}
	}
}

// lastLook is for how long a connection that ends is looked at for what has been sent.
const lastLook = 25 * time.Millisecond

// ended returns nil for how connections end usually.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// answer obeys the whole commands in d.in[:n], sends the answers, and keeps what is left.
func (c *conn) answer(d *desk, n int) (bad error) {
	b, at := d.in[:n], 0
	k := &d.clerk
	anything := false
	for !c.closing {
		var size int
		limits := &c.server.bounds
		d.args, size, bad = limits.parse(b[at:], d.args[:0])
		if bad == nil && !c.authed && len(d.args) > anonymousArgs {
			bad = errAnonymous
		}
		if bad != nil {
			d.jobs.do(k)
			k.fail("ERR " + bad.Error())
			break
		}
		if size == 0 {
			break
		}
		at += size
		if len(d.args) == 0 {
			continue
		}
		anything = true
		c.obeyHeard(d)
		if len(k.out) >= flushAt {
			c.flush(k)
			if c.server.ctx.Err() != nil { // Shutdown has no more patience
				c.closing = true
			}
		}
	}
	d.jobs.do(k)
	if bad == nil {
		bad = c.keep(b[at:], anything, k)
	}
	if k.commands == 1 && c.server.oneCPU {
		// Others whose command came at the same time decide theirs first, so that the answers go out one right after the other
		// and a client that waits for several is woken once.
		runtime.Gosched()
	}
	c.flush(k)
	k.tally()
	if c.err != nil {
		return c.err
	}
	return bad
}

// anonymousArgs is of how many arguments a command may consist of who has not shown the token yet.
const anonymousArgs = 16

// obeyHeard obeys the command in d.args, and lets the client hear what it wants to.
func (c *conn) obeyHeard(d *desk) {
	if c.replies == replyOn {
		c.obey(&d.clerk, &d.jobs, d.args)
		return
	}
	if c.replies == replySkipNext {
		c.replies = replySkip
	}
	d.jobs.do(&d.clerk)
	before := len(d.clerk.out)
	c.obey(&d.clerk, &d.jobs, d.args)
	if c.quiet() && len(d.jobs.list) == 0 {
		d.clerk.out = d.clerk.out[:before]
	}
	if c.replies == replySkip {
		c.replies = replyOn
	}
}

// keep remembers what has come of a command that is not whole, and when it began.
func (c *conn) keep(rest []byte, anything bool, k *clerk) error {
	now, begun := c.server.tick.Load(), c.begun.Load()
	if anything && c.active.Load() != now {
		c.active.Store(now)
	}
	switch {
	case !c.authed: // has as long as for one command to show its token
		if begun == 0 {
			c.begun.Store(now)
		}
	case len(rest) > 0 && (anything || begun == 0):
		c.begun.Store(now)
	case len(rest) == 0 && anything && begun != 0:
		c.begun.Store(0)
	}
	if len(rest) == 0 && c.rest == nil {
		return nil
	}
	if !c.hold(rest) {
		k.fail("ERR out of memory for commands that are not whole")
		return errTooLong
	}
	return nil
}

// hold keeps a copy of what has come of a command, and tells whether there was room.
func (c *conn) hold(rest []byte) bool {
	c.rest = append(c.rest[:0], rest...)
	if len(rest) == 0 {
		c.rest = nil
	}
	large := int64(0)
	if size := cap(c.rest); size > keptRest {
		large = int64(size)
	}
	if large == c.counted {
		return true
	}
	held := c.server.held.Add(large - c.counted)
	c.counted = large
	return large == 0 || held <= int64(c.server.config.Limits.Held)
}

// flush sends the answers.
func (c *conn) flush(k *clerk) {
	b := k.out
	k.out = k.out[:0]
	if len(b) == 0 || c.err != nil {
		return
	}
	if c.raw != nil {
		if b = b[c.raw(b):]; len(b) == 0 {
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

// linger lets a client read why the connection is closed: it would not if what it still sends were met by a closed door.
func (c *conn) linger() {
	half, ok := c.net.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.net.SetReadDeadline(time.Now().Add(lingering)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.net, int64(4*c.server.config.Limits.Command)) // whatever ends it, it has ended
}
