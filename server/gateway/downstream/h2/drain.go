package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// drainTime is the maximum time in which a client must acknowledge the ping of Drain.
const drainTime = time.Second

// drain is the state of a graceful end of the connection. Conn.mu guards it.
type drain struct {
	begun   bool        // the end was announced
	final   bool        // the last stream was announced
	last    uint32      // the last stream, if final
	drained bool        // all streams have ended, so the connection ends
	timer   *time.Timer // calls finishDrain if the client does not acknowledge the ping
}

// drainData is the content of the ping that Drain sends.
var drainData = [8]byte{'h', 'g', 'd', 'r', 'a', 'i', 'n'}

func (d *drain) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

// Drain tells the client to open no more streams, and ends the connection when the current streams have ended. It
// returns immediately, and may be called several times.
func (c *Conn) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginDrain()
	c.flushSoon()
}

// beginDrain announces the end. c.mu is held.
func (c *Conn) beginDrain() {
	if c.drain.begun || c.err != nil {
		return
	}
	c.drain.begun = true
	c.queue(appendGoAway(c.frames(), maxStreamID, http2.ErrCodeNo))
	c.ping(drainData)
	c.drain.timer = time.AfterFunc(drainTime, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.finishDrain()
		c.flushSoon()
	})
}

// finishDrain announces the last stream. c.mu is held.
func (c *Conn) finishDrain() {
	if c.drain.final || c.err != nil {
		return
	}
	c.drain.stop()
	c.drain.final, c.drain.last = true, c.lastID
	c.queue(appendGoAway(c.frames(), c.lastID, http2.ErrCodeNo))
	c.endIfDrained()
}

// endIfDrained ends the connection if it is drained. c.mu is held.
func (c *Conn) endIfDrained() {
	if c.drain.final && c.handlers == 0 && !c.drain.drained {
		c.drain.drained = true
		c.wakeReader()
	}
}
