package h2

import "golang.org/x/net/http2"

// An inflow is the flow-control window for bytes that the client sends on a stream or connection.
type inflow struct {
	window    int64 // the full size
	available int64 // number of bytes that the client may send
	unsent    int64 // number of bytes that were read, but not yet added to the window by a WINDOW_UPDATE
}

// take counts received bytes. It returns false if the client has exceeded the window.
func (f *inflow) take(n int) bool {
	f.available -= int64(n)
	return f.available >= 0
}

// give counts n bytes that were read, so that the client may send n more bytes. It returns the increment for a
// WINDOW_UPDATE, or 0 if none must be sent yet.
func (f *inflow) give(n int) uint32 {
	f.unsent += int64(n)
	if f.unsent < f.window/4 {
		return 0
	}
	n, f.unsent = int(f.unsent), 0
	f.available += int64(n)
	return uint32(n)
}

// giveConnWindow counts n bytes that were read from any stream, for the window of the connection. c.mu is held.
func (c *Conn) giveConnWindow(n int) {
	if n := c.inflow.give(n); n > 0 {
		c.queue(appendWindowUpdate(c.frames(), 0, n))
	}
}

// widen adds n to a window for sending. It returns false if the window becomes too large.
func widen(window *int64, n int64) bool {
	*window += n
	return *window <= maxWindow
}

// smallUpdate is the minimum number of bytes of a WINDOW_UPDATE or DATA frame. Smaller frames take from the budget.
const smallUpdate = 1 << 10

// processWindowUpdate processes a WINDOW_UPDATE frame.
func (c *Conn) processWindowUpdate(f *frame) error {
	if len(f.payload) != 4 {
		return &connError{http2.ErrCodeFrameSize, "WINDOW_UPDATE must have 4 bytes"}
	}
	n := int64(uint32At(f.payload) & maxWindow)
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.stream == 0 {
		switch {
		case n == 0:
			return &connError{http2.ErrCodeProtocol, "WINDOW_UPDATE of 0"}
		case !widen(&c.sending.window, n):
			return &connError{http2.ErrCodeFlowControl, "the window of the connection is too large"}
		}
		c.wakeWaiting()
		return c.spendIf(n < smallUpdate, 1)
	}
	if c.isIdle(f.stream) {
		return &connError{http2.ErrCodeProtocol, "WINDOW_UPDATE for a stream that does not exist"}
	}
	st := c.streams[f.stream]
	switch {
	case n == 0:
		c.reset(f.stream, http2.ErrCodeProtocol)
		return c.spend(1)
	case st == nil:
		return c.spend(1)
	case !widen(&st.window, n):
		c.reset(f.stream, http2.ErrCodeFlowControl)
		return c.spend(1)
	}
	st.wake.Broadcast()
	return c.spendIf(n < smallUpdate, 1)
}

// isIdle reports whether a stream is idle as in RFC 9113: the client has not opened it. c.mu is held.
func (c *Conn) isIdle(id uint32) bool { return id%2 == 0 || id > c.lastID }

// spend takes n from the budget. It returns an error if the budget is overdrawn or too many control
// frames are queued. c.mu is held.
func (c *Conn) spend(n int) error {
	if c.sending.control > maxControl {
		return &connError{http2.ErrCodeEnhanceYourCalm, "too many control frames wait to be sent"}
	}
	b := &c.reader.budget
	if b.spend(n) || b.refill(c.now(), c.useful) {
		return nil
	}
	return &connError{http2.ErrCodeEnhanceYourCalm, "too many useless frames"}
}

func (c *Conn) spendIf(condition bool, n int) error {
	if !condition {
		return nil
	}
	return c.spend(n)
}
