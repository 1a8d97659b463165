package h2

import (
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/server/internal/conns"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A Conn serves the connection of a client.
type Conn struct {
	server *Server
	link   Link
	epoch  time.Time
	reader reader

	mu        sync.Mutex // guards the fields below
	streams   map[uint32]*stream
	handlers  int           // number of running handlers, including handlers of streams that were reset
	ended     *sync.Cond    // signaled when the last handler or a flush has ended
	idleSince time.Duration // when the last handler ended
	lastID    uint32        // the number of the last stream that the client has opened
	resets    resetSet      // streams that this side has reset or ignores
	useful    int64         // number of useful frames, for the budget
	peer      peerSettings
	inflow    inflow
	sending   sending
	drain     drain
	err       error // why the connection has ended; nil while it is open
}

// peerSettings are the settings of the client.
type peerSettings struct {
	window    int64 // window of new streams for sending
	resetSize bool  // the next header block must begin with a size update of the dynamic table
}

const (
	// connWindow and streamWindow are the maximum numbers of body bytes that a client may send on a connection and on a
	// stream before handlers read them. net/http has the same values.
	connWindow   = 1 << 20
	streamWindow = 1 << 20
)

var (
	errClientEnded = errors.New("h2: the client has closed the connection")
	errEnded       = errors.New("h2: the connection has ended")
	errReset       = errors.New("h2: the client has reset the stream")
)

// NewConn returns a Conn for a connection. Call Serve to serve it.
func (s *Server) NewConn(l Link) *Conn {
	c := &Conn{
		server: s, link: l, epoch: time.Now(), streams: make(map[uint32]*stream),
		peer: peerSettings{window: firstWindow}, inflow: inflow{window: connWindow, available: connWindow},
		sending: sending{window: firstWindow},
	}
	c.ended = sync.NewCond(&c.mu)
	c.reader.budget.left = budgetMax
	c.reader.decoder = hpack.NewDecoder(tableSize, c.reader.block.add)
	c.reader.decoder.SetMaxStringLength(s.MaxHeaderBytes)
	c.reader.block.limit = s.MaxHeaderBytes
	c.begin()
	return c
}

// tableSize is the size of the dynamic table for decoding. It is the default of HTTP/2.
const tableSize = 4 << 10

func (c *Conn) now() time.Duration { return time.Since(c.epoch) + 1 }

// Serve serves the connection. It returns when the connection and all its handlers have ended.
func (c *Conn) Serve() {
	err := c.readFrames()
	c.end(err)
}

// begin queues the settings, so that they precede any frame of Drain. They are sent before the first read.
func (c *Conn) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idleSince = c.now()
	s := c.server
	c.queue(appendSettings(c.frames(),
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(s.MaxStreams)},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(s.MaxHeaderBytes)},
	))
	c.queue(appendWindowUpdate(c.frames(), 0, connWindow-firstWindow))
	c.reader.unacked = 1
}

// lastWriteTime limits the time of the last write to a client that has violated the protocol.
const lastWriteTime = 500 * time.Millisecond

// end ends the connection and waits for its handlers. err is the reason.
func (c *Conn) end(err error) {
	c.mu.Lock()
	var fault *connError
	graceful := errors.As(err, &fault) || errors.Is(err, errEnded)
	if graceful && c.err == nil {
		code := http2.ErrCodeNo
		if fault != nil {
			code = fault.code
		}
		if fault != nil || !c.drain.final {
			last := c.lastID
			if c.drain.final {
				last = c.drain.last // later streams are ignored
			}
			c.queue(appendGoAway(c.frames(), last, code))
		}
	}
	c.abort(err)
	if fault != nil {
		_ = c.link.Conn.SetWriteDeadline(time.Now().Add(lastWriteTime))
	}
	if graceful {
		c.flushLast(fault != nil)
	}
	c.mu.Unlock()
	if graceful {
		conns.Linger(c.link.Conn, c.link.Conn)
	}
	_ = c.link.Conn.Close() // after an error, the connection is closed too
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.handlers > 0 || c.sending.flushing {
		c.ended.Wait()
	}
	c.drain.stop()
	c.releaseOut()
	c.reader.release(c.server)
}

// abort ends all streams. c.mu is held.
func (c *Conn) abort(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	for _, st := range c.streams {
		st.cancel(errClientEnded)
	}
	clear(c.streams)
}

// fail ends the connection because writing has failed. c.mu is held.
func (c *Conn) fail(err error) {
	c.abort(err)
	c.wakeReader()
}

// wakeReader ends the current read, so that the reading goroutine notices that the connection has
// ended. c.mu is held.
func (c *Conn) wakeReader() { _ = c.link.Conn.SetReadDeadline(longAgo) }

// longAgo is a deadline that has passed: it ends reads immediately.
var longAgo = time.Unix(1, 0)

// handlerEnded must be called when a handler has ended. status is the status of its response. c.mu is held.
func (c *Conn) handlerEnded(status int) {
	if c.handlers--; c.handlers > 0 {
		return
	}
	c.idleSince = c.now()
	c.ended.Broadcast()
	if c.err != nil {
		return
	}
	c.link.States.Idle(status == statusDenied)
	c.endIfDrained()
}

// reset resets a stream, which may have ended already. c.mu is held.
func (c *Conn) reset(id uint32, code http2.ErrCode) {
	c.queueControl(appendReset(c.frames(), id, code))
	c.resets.add(id)
	if st := c.streams[id]; st != nil {
		delete(c.streams, id)
		st.cancel(errReset)
	}
}

// A resetSet has the streams that were most recently reset or ignored. The client may still send frames on these
// streams, which is not an error.
type resetSet struct {
	ids  [32]uint32
	next int
}

func (r *resetSet) add(id uint32) {
	r.ids[r.next] = id
	r.next = (r.next + 1) % len(r.ids)
}

func (r *resetSet) has(id uint32) bool { return slices.Contains(r.ids[:], id) }

var _ net.Error = (*timeoutError)(nil)

// A timeoutError is the error of a client that was too slow.
type timeoutError struct{ what string }

func (e *timeoutError) Error() string { return "h2: the client is too slow: " + e.what }

// Timeout implements net.Error.
func (e *timeoutError) Timeout() bool { return true }

// Temporary implements net.Error.
func (e *timeoutError) Temporary() bool { return false }
