package upstream

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sendGrace is how long a body that has been read to its end may take to be sent on once the response is complete. It is
	// normally on its way then, and the connection can be used again.
	sendGrace = 50 * time.Millisecond
	// lingerTime is how long net/http may read and drop the rest of a body that nobody wants, so that the client, who may
	// still be sending, gets to read the response. Without a bound it would wait for one who is not.
	lingerTime = time.Second
)

// A sender sends the body of a request while the response is awaited. Its goroutine ends before Forward returns.
type sender struct {
	x    *exchange
	c    *conn
	done chan struct{}

	drained atomic.Bool // the body was read to its end
	unasked atomic.Bool // nobody wants the rest

	mu       sync.Mutex
	answered bool // the response has begun, and its reader sets the deadlines

	// Of these the goroutine is done when it is.
	readErr  error // of the client's body
	writeErr error // of the connection
}

// send starts to send the body.
func (x *exchange) send() {
	if x.r.ProtoMajor == 1 {
		// This is how net/http is told that a body is read while the response is written.
		_ = http.NewResponseController(x.w).EnableFullDuplex()
	}
	s := &sender{x: x, c: x.c, done: make(chan struct{})}
	x.sender = s
	go s.run()
}

func (s *sender) run() {
	defer close(s.done)
	b := bodyBuffers.Get().(*bodyBuffer)
	defer bodyBuffers.Put(b)
	if s.x.body.length >= 0 {
		s.sendLength(b, s.x.body.length)
	} else {
		s.sendChunks(b)
	}
	if s.readErr != nil {
		// The upstream must not take what it has for the whole.
		s.c.hangUp()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answered {
		_ = s.c.SetReadDeadline(after(s.x.pool.config.HeaderTimeout))
	}
}

func (s *sender) sendLength(b *bodyBuffer, left int64) {
	for !s.unasked.Load() {
		n, err := s.x.r.Body.Read(b[:min(int64(len(b)), left)])
		left -= int64(n)
		if left == 0 {
			s.drained.Store(true)
		}
		if n > 0 && !s.write(b[:n]) || left == 0 {
			return
		}
		if err != nil {
			s.failed(err)
			return
		}
	}
}

// sendChunks sends each piece of the body as a chunk, with what belongs before and after it, in one write.
func (s *sender) sendChunks(b *bodyBuffer) {
	const before = len("ffffffff\r\n")
	const after = len("\r\n0\r\n\r\n")
	for !s.unasked.Load() {
		n, err := s.x.r.Body.Read(b[before : len(b)-after])
		ended := errors.Is(err, io.EOF)
		if ended {
			s.drained.Store(true)
		}
		out := b[before:before]
		if n > 0 {
			var size [8]byte
			digits := strconv.AppendInt(size[:0], int64(n), 16)
			start := before - len(digits) - 2
			copy(b[start:], digits)
			copy(b[before-2:], "\r\n")
			out = b[start : before+n]
			out = append(out, "\r\n"...)
		}
		if ended {
			out = append(out, "0\r\n"...)
			// Trailers that do not fit into the buffer get a new one.
			if out, err = appendTrailers(out, s.x.r.Trailer, &s.x.h); err != nil {
				s.readErr = err
				return
			}
		}
		if len(out) > 0 && !s.write(out) || ended {
			return
		}
		if err != nil {
			s.failed(err)
			return
		}
	}
}

func (s *sender) write(b []byte) bool {
	_ = s.c.SetWriteDeadline(after(s.x.pool.config.StallTimeout))
	_, s.writeErr = s.c.Write(b)
	return s.writeErr == nil
}

func (s *sender) failed(err error) {
	if s.unasked.Load() {
		return
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	s.readErr = err
}

// take over the deadlines for what is read, as the response has begun.
func (s *sender) takeOver() {
	s.mu.Lock()
	s.answered = true
	s.mu.Unlock()
}

// end ends the sending, if it has not yet, and waits for it. It reports whether all was sent, so that the connection is of
// further use.
func (s *sender) end() bool {
	select {
	case <-s.done:
		return s.drained.Load() && s.writeErr == nil
	default:
	}
	if s.drained.Load() {
		timer := time.NewTimer(sendGrace)
		defer timer.Stop()
		select {
		case <-s.done:
			return s.writeErr == nil
		case <-timer.C:
		}
	}
	s.unasked.Store(true)
	s.c.hangUp()
	if s.drained.Load() {
		<-s.done
		return false
	}
	// It may be waiting for the client. A body with deadlines of its own may set one just after us, so this is said again
	// until it is heard.
	client := http.NewResponseController(s.x.w)
	again := time.NewTicker(sendGrace)
	defer again.Stop()
	for {
		if err := client.SetReadDeadline(longAgo); err != nil {
			_ = s.x.r.Body.Close()
		}
		select {
		case <-s.done:
			return false
		case <-again.C:
		}
	}
}

// after returns the time that is d from now on; none if d is negative.
func after(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}
