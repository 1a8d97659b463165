package h2

import (
	"math"
	"runtime"
	"time"

	"golang.org/x/net/http2"
)

const (
	// maxQueued is how many bytes are queued before writes of handlers wait.
	maxQueued = 64 << 10
	// maxControl is how many bytes of control frames are queued in response to the client before it is disconnected.
	maxControl = 64 << 10
	// flushRounds is how often a goroutine of a handler sends what others have queued meanwhile.
	flushRounds = 4
	// writeSize is how much is sent with one deadline.
	writeSize = 16 << 10
)

// sending is the state of sending. It is guarded by Conn.mu.
type sending struct {
	window   int64 // of the connection
	queued   *outBuffer
	spare    *outBuffer    // nil, or a buffer without frames
	control  int           // bytes of control frames in queued
	flushing bool          // a goroutine is about to send
	waiting  []*stream     // that wait for the queue or the window of the connection
	deadline time.Duration // of writes; 0 if there is none
}

// frames returns the queued frames, to which more can be appended for queue. c.mu is held.
func (c *Conn) frames() []byte {
	if c.sending.queued == nil {
		c.sending.queued = c.server.out()
	}
	return c.sending.queued.frames
}

// queue queues frames that were appended to those of c.frames. c.mu is held.
func (c *Conn) queue(frames []byte) {
	if c.err == nil {
		c.sending.queued.frames = frames
	}
}

// queueControl queues control frames, and counts them. c.mu is held.
func (c *Conn) queueControl(frames []byte) {
	c.sending.control += len(frames) - len(c.sending.queued.frames)
	c.queue(frames)
}

func (s *sending) empty() bool { return s.queued == nil || len(s.queued.frames) == 0 }

// full reports whether handlers must wait before they queue more.
func (s *sending) full() bool { return s.queued != nil && len(s.queued.frames) >= maxQueued }

// flushSoon lets another goroutine send what is queued. The reading goroutine never writes itself: a client that does
// not read before it has sent something would block both sides. c.mu is held.
func (c *Conn) flushSoon() {
	if !c.sending.flushing && !c.sending.empty() {
		c.sending.flushing = true
		go c.flushAlone()
	}
}

// flushAlone sends what is queued, in its own goroutine.
func (c *Conn) flushAlone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushRounds(0)
}

// flush sends what is queued, unless another goroutine does. c.mu is held, but not while this sends.
func (c *Conn) flush() {
	if !c.sending.flushing && !c.sending.empty() {
		c.sending.flushing = true
		c.flushRounds(flushRounds)
	}
}

// flushRounds sends until nothing is queued. After so many rounds another goroutine continues; 0 for no limit.
func (c *Conn) flushRounds(rounds int) {
	s := &c.sending
	for n := 1; !s.empty(); n++ {
		if rounds > 0 && n > rounds {
			go c.flushAlone()
			return
		}
		c.mu.Unlock()
		runtime.Gosched() // others may have frames for the same write
		c.mu.Lock()
		out := s.queued
		s.queued, s.spare, s.control = s.spare, nil, 0
		c.wakeWaiting()
		c.mu.Unlock()
		err := c.write(out.frames)
		c.mu.Lock()
		out.frames = out.frames[:0]
		if s.spare == nil && cap(out.frames) <= keptOut {
			s.spare = out
		}
		if err != nil {
			c.fail(err)
			if s.queued != nil {
				s.queued.frames = s.queued.frames[:0]
			}
		}
	}
	s.flushing = false
	if c.handlers == 0 {
		c.releaseOut()
	}
	if c.handlers == 0 || c.err != nil { // the end of the connection waits for either
		c.ended.Broadcast()
	}
}

// flushLast sends what is queued before the connection ends, with the deadline that was set, if there is one. c.mu is
// held.
func (c *Conn) flushLast(hasDeadline bool) {
	for c.sending.flushing {
		c.ended.Wait()
	}
	if hasDeadline {
		c.sending.deadline = math.MaxInt64
	}
	if !c.sending.empty() {
		c.sending.flushing = true
		c.flushRounds(0)
	}
}

// releaseOut gives back buffers without frames. c.mu is held.
func (c *Conn) releaseOut() {
	s := &c.sending
	if s.empty() {
		c.server.releaseOut(s.queued)
		s.queued = nil
	}
	c.server.releaseOut(s.spare)
	s.spare = nil
}

// wakeWaiting wakes streams that wait for the queue or the window. c.mu is held.
func (c *Conn) wakeWaiting() {
	for i, st := range c.sending.waiting {
		st.waits = false
		st.wake.Broadcast()
		c.sending.waiting[i] = nil
	}
	c.sending.waiting = c.sending.waiting[:0]
}

// write sends frames. Only one goroutine does so at a time.
func (c *Conn) write(b []byte) error {
	limit := c.server.WriteTimeout
	for len(b) > 0 {
		if limit > 0 {
			// A deadline serves for several writes, as long as most of it is left.
			if now := c.now(); c.sending.deadline-now < limit-limit/4 {
				c.sending.deadline = now + limit
				_ = c.link.Conn.SetWriteDeadline(c.epoch.Add(now + limit)) // if the connection is closed, writing fails
			}
		}
		n, err := c.link.Conn.Write(b[:min(len(b), writeSize)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// sendBlock queues a header block. c.mu is held.
func (c *Conn) sendBlock(id uint32, block []byte, end bool) {
	if c.peer.resetSize {
		c.peer.resetSize = false
		block = append([]byte{sizeUpdate}, block...)
	}
	c.queue(appendBlock(c.frames(), id, block, end))
	c.useful++
}

// sendData queues as much data as the windows allow, in one frame, and returns the rest. c.mu is held.
func (c *Conn) sendData(st *stream, data []byte, end bool) []byte {
	n := int(min(int64(len(data)), st.window, c.sending.window, maxFrameSize))
	if n <= 0 || c.sending.full() {
		return data
	}
	c.queue(appendData(c.frames(), st.id, data[:n], end && n == len(data)))
	st.window -= int64(n)
	c.sending.window -= int64(n)
	c.useful++
	return data[n:]
}

// sendEnd queues the end of a stream. c.mu is held.
func (c *Conn) sendEnd(id uint32) { c.queue(appendData(c.frames(), id, nil, true)) }

// ping queues a ping. c.mu is held.
func (c *Conn) ping(data [8]byte) {
	var none http2.Flags
	c.queue(appendPing(c.frames(), none, data))
}
