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
	// sendGrace is the time for which stop waits for the last bytes of a body to be sent, after the response is complete.
	// Usually this is long enough, and the connection can be reused.
	sendGrace = 50 * time.Millisecond
	// lingerTime is the time for which net/http may read and discard the rest of an unwanted body. If it closed the
	// connection at once, a client that is still sending might not receive the response.
	lingerTime = time.Second
)

// A sender sends the body of a request in its own goroutine, which ends before Forward returns.
type sender struct {
	rt   *roundTrip
	c    *conn
	done chan struct{}

	bodyRead  atomic.Bool // the body was read to its end
	abandoned atomic.Bool // the rest of the body must not be sent

	mu        sync.Mutex
	responded bool // the response has begun, so its reader sets the read deadlines

	// These may be read only after done is closed.
	readErr  error // from reading the client's body
	writeErr error // from writing to the upstream
}

// startSender starts to send the body.
func (rt *roundTrip) startSender() {
	if rt.r.ProtoMajor == 1 {
		// The body is read while the response is written.
		_ = http.NewResponseController(rt.w).EnableFullDuplex()
	}
	s := &sender{rt: rt, c: rt.c, done: make(chan struct{})}
	rt.sender = s
	go s.run()
}

func (s *sender) run() {
	defer close(s.done)
	b := bodyBuffers.Get().(*bodyBuffer)
	defer bodyBuffers.Put(b)
	if s.rt.body.length >= 0 {
		s.sendLength(b, s.rt.body.length)
	} else {
		s.sendChunks(b)
	}
	if s.readErr != nil {
		// Close the connection, so that the upstream does not treat the bytes that it has received as the whole body.
		s.c.closeNetConn()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.responded {
		_ = s.c.SetReadDeadline(deadlineAfter(s.rt.pool.config.HeaderTimeout))
	}
}

// sendLength sends a body of known length.
func (s *sender) sendLength(b *bodyBuffer, remaining int64) {
	for !s.abandoned.Load() {
		n, err := s.rt.r.Body.Read(b[:min(int64(len(b)), remaining)])
		remaining -= int64(n)
		if remaining == 0 {
			s.bodyRead.Store(true)
		}
		if n > 0 && !s.write(b[:n]) {
			return
		}
		if remaining == 0 {
			return
		}
		if err != nil {
			s.recordReadError(err)
			return
		}
	}
}

// sendChunks sends each piece of the body that it reads as a chunk, in one write.
func (s *sender) sendChunks(b *bodyBuffer) {
	const prefix = len("ffffffff\r\n")       // room for the size of a chunk
	const suffix = len("\r\n" + "0\r\n\r\n") // room for the end of a chunk, and for the last chunk
	for !s.abandoned.Load() {
		n, err := s.rt.r.Body.Read(b[prefix : len(b)-suffix])
		ended := errors.Is(err, io.EOF)
		if ended {
			s.bodyRead.Store(true)
		}
		out := b[prefix:prefix]
		if n > 0 {
			var size [8]byte
			digits := strconv.AppendInt(size[:0], int64(n), 16)
			start := prefix - len(digits) - 2
			copy(b[start:], digits)
			copy(b[prefix-2:], "\r\n")
			out = b[start : prefix+n]
			out = append(out, "\r\n"...)
		}
		if ended {
			out = append(out, "0\r\n"...)
			// If the trailers do not fit into the buffer, append allocates a new one.
			if out, err = appendTrailers(out, s.rt.r.Trailer, &s.rt.overrides); err != nil {
				s.readErr = err
				return
			}
		}
		if len(out) > 0 && !s.write(out) {
			return
		}
		if ended {
			return
		}
		if err != nil {
			s.recordReadError(err)
			return
		}
	}
}

// write sends b, and reports whether that succeeded.
func (s *sender) write(b []byte) bool {
	_ = s.c.SetWriteDeadline(deadlineAfter(s.rt.pool.config.StallTimeout))
	_, s.writeErr = s.c.Write(b)
	return s.writeErr == nil
}

func (s *sender) recordReadError(err error) {
	if s.abandoned.Load() {
		return
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	s.readErr = err
}

// responseBegan tells the sender that the reader of the response sets the read deadlines from now on.
func (s *sender) responseBegan() {
	s.mu.Lock()
	s.responded = true
	s.mu.Unlock()
}

// stop stops the sender and waits for its end. It reports whether all of the body was sent, so that the connection can
// be reused.
func (s *sender) stop() bool {
	select {
	case <-s.done:
		return s.bodyRead.Load() && s.writeErr == nil
	default:
	}
	if s.bodyRead.Load() {
		timer := time.NewTimer(sendGrace)
		defer timer.Stop()
		select {
		case <-s.done:
			return s.writeErr == nil
		case <-timer.C:
		}
	}
	s.abandoned.Store(true)
	s.c.closeNetConn()
	if s.bodyRead.Load() {
		<-s.done
		return false
	}
	// The sender may be waiting for the client. A past deadline ends that wait. But the body may replace the deadline by
	// its own, so set it again until the sender ends.
	client := http.NewResponseController(s.rt.w)
	ticker := time.NewTicker(sendGrace)
	defer ticker.Stop()
	for {
		if err := client.SetReadDeadline(pastTime); err != nil {
			_ = s.rt.r.Body.Close()
		}
		select {
		case <-s.done:
			return false
		case <-ticker.C:
		}
	}
}

// deadlineAfter returns the time d from now, or the zero time, which means no deadline, if d is negative.
func deadlineAfter(d time.Duration) time.Time {
	if d < 0 {
		return time.Time{}
	}
	return time.Now().Add(d)
}
