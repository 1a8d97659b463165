package h2

import (
	"math"
	"runtime"
	"time"

	"golang.org/x/net/http2"
)

const (
	// maxQueued is the maximum number of queued bytes. Handlers wait when it is reached.
	maxQueued = 64 << 10
	// maxControl is the maximum number of queued bytes of control frames, which respond to frames of the client. A client
	// that causes more is disconnected.
	maxControl = 64 << 10
	// flushRounds is the maximum number of writes by the goroutine of a handler, because a write also sends frames of
	// other handlers.
	flushRounds = 4
	// writeSize is the maximum number of bytes that are sent with one deadline.
	writeSize = 16 << 10
)

// sending is the state of sending. It is guarded by Conn.mu.
type sending struct {
	window   int64 // number of body bytes that the client still accepts on the connection
	queued   *outBuffer
	spare    *outBuffer    // nil, or a buffer without frames
	control  int           // bytes of control frames in queued
	flushing bool          // a goroutine is sending, or is about to send
	waiting  []*stream     // streams that wait for the queue or the window of the connection
	deadline time.Duration // the write deadline that is set; 0 if there is none
}

// frames returns the queued frames. Callers append frames to them and pass the result to queue.
// c.mu is held.
func (c *Conn) frames() []byte {
	if c.sending.queued == nil {
		c.sending.queued = c.server.out()
	}
	return c.sending.queued.frames
}

// queue replaces the queued frames by frames, which is the result of c.frames with more frames
// appended. c.mu is held.
func (c *Conn) queue(frames []byte) {
	if c.err == nil {
		c.sending.queued.frames = frames
	}
}

// queueControl is queue for control frames: it counts their bytes. c.mu is held.
func (c *Conn) queueControl(frames []byte) {
	c.sending.control += len(frames) - len(c.sending.queued.frames)
	c.queue(frames)
}

func (s *sending) empty() bool { return s.queued == nil || len(s.queued.frames) == 0 }

// full reports whether handlers must wait before they queue more frames.
func (s *sending) full() bool { return s.queued != nil && len(s.queued.frames) >= maxQueued }

// flushSoon sends the queued frames in a new goroutine. The reading goroutine must not write itself: if the client does
// not read while it sends, both sides would block. c.mu is held.
func (c *Conn) flushSoon() {
	if !c.sending.flushing && !c.sending.empty() {
		c.sending.flushing = true
		go c.flushAlone()
	}
}

// flushAlone sends the queued frames. It runs in its own goroutine.
func (c *Conn) flushAlone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushRounds(0)
}

// flush sends the queued frames, unless another goroutine is sending. The caller holds c.mu, which flush releases while
// it sends.
func (c *Conn) flush() {
	if !c.sending.flushing && !c.sending.empty() {
		c.sending.flushing = true
		c.flushRounds(flushRounds)
	}
}

// flushRounds sends until no frame is queued. After the given number of rounds a new goroutine continues, so that
// frames of other handlers do not delay a handler; 0 means no limit.
func (c *Conn) flushRounds(rounds int) {
	s := &c.sending
	for n := 1; !s.empty(); n++ {
		if rounds > 0 && n > rounds {
			go c.flushAlone()
			return
		}
		c.mu.Unlock()
		runtime.Gosched() // other goroutines may add frames to the same write
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
	if c.handlers == 0 || c.err != nil { // end may wait for the end of the flush
		c.ended.Broadcast()
	}
}

// flushLast sends the queued frames before the connection ends. If hasDeadline is set, it keeps the write deadline that
// the caller has set. c.mu is held.
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
		st.isWaiting = false
		st.wake.Broadcast()
		c.sending.waiting[i] = nil
	}
	c.sending.waiting = c.sending.waiting[:0]
}

// write sends frames. Only one goroutine calls it at a time.
func (c *Conn) write(b []byte) error {
	limit := c.server.WriteTimeout
	for len(b) > 0 {
		if limit > 0 {
			// Setting a deadline costs time, so keep the deadline while at least three quarters of the time are left.
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
