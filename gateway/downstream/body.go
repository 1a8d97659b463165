package downstream

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A body is that of a request, whose length is known. Unlike the rest of it, it is not used again: somebody may be left behind
// who reads it, such as a transport that got its answer early, and must not read what comes next.
type body struct {
	conn   *conn
	left   atomic.Int64
	closed atomic.Bool
	mu     sync.Mutex // of who reads
}

var _ io.ReadCloser = (*body)(nil)

// Read reads the body.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := b.left.Load()
	switch {
	case b.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case left == 0:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	p = p[:min(int64(len(p)), left)]
	c := b.conn
	if !c.in.empty() {
		n := copy(p, c.in.bytes())
		c.in.use(n)
		return b.read(n)
	}
	n, err := c.rwc.Read(p)
	if n == 0 && err != nil {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.context.cancel()
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	return b.read(n)
}

// read counts what was read.
func (b *body) read(n int) (int, error) {
	if b.left.Add(-int64(n)) > 0 {
		return n, nil
	}
	b.conn.mu.Lock()
	b.conn.watch()
	b.conn.mu.Unlock()
	return n, io.EOF
}

// Close has no more read by the handler.
func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

// end closes it when the request is over, and waits for who still reads.
func (b *body) end() {
	b.closed.Store(true)
	if !b.mu.TryLock() {
		c := b.conn
		_ = c.rwc.SetReadDeadline(longAgo)
		b.mu.Lock()
		c.alarm = 0
		_ = c.rwc.SetReadDeadline(time.Time{})
	}
	b.mu.Unlock()
}

// What is left of a body that the handler does not want is read so that the connection can be used again, but not more than this
// and not for longer.
const (
	maxDrain  = 256 << 10
	drainTime = time.Second
)

// drain reads what is left of the body, which has ended. It reports whether that was all of it.
func (b *body) drain() bool {
	left := b.left.Load()
	c := b.conn
	if n := min(left, int64(len(c.in.bytes()))); n > 0 {
		c.in.use(int(n))
		left -= n
	}
	b.left.Store(0)
	if left == 0 {
		return true
	}
	if left > maxDrain {
		return false
	}
	_ = c.rwc.SetReadDeadline(time.Now().Add(drainTime))
	var waste [4 << 10]byte
	for left > 0 {
		n, err := c.rwc.Read(waste[:min(left, int64(len(waste)))])
		left -= int64(n)
		if n == 0 && err != nil {
			return false
		}
	}
	c.alarm = 0
	_ = c.rwc.SetReadDeadline(time.Time{})
	return true
}
