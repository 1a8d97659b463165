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

// A body is the body of a request with a known length. Unlike the other memory of a request, it is not reused, because
// a goroutine may still read it after the handler has returned, and must not read bytes of the next request. For
// example, a transport may have got the response before it has sent the whole body.
type body struct {
	conn    *conn
	arrived bool         // all of it had arrived before the handler was called, so that reading it never waits
	left    atomic.Int64 // bytes that were not read yet
	closed  atomic.Bool
	mu      sync.Mutex // held while reading
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
		c.in.consume(n)
		return b.count(n)
	}
	n, err := c.link.rwc.Read(p)
	if n == 0 && err != nil {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.current.Context.Cancel()
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, err
	}
	return b.count(n)
}

// count counts n bytes that were read. After the last byte, it returns io.EOF.
func (b *body) count(n int) (int, error) {
	if b.left.Add(-int64(n)) > 0 {
		return n, nil
	}
	b.conn.watcher.mu.Lock()
	b.conn.watch()
	b.conn.watcher.mu.Unlock()
	return n, io.EOF
}

// Close makes further reads fail.
func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

// end closes the body when the request has ended, and waits for a read in progress.
func (b *body) end() {
	b.closed.Store(true)
	if !b.mu.TryLock() {
		_ = b.conn.link.rwc.SetReadDeadline(longAgo)
		b.mu.Lock()
		b.conn.resetReadDeadline()
	}
	b.mu.Unlock()
}

// Limits for reading the rest of a body that the handler has not read. The connection can be reused only after the rest
// was read.
const (
	maxDrain  = 256 << 10
	drainTime = time.Second
)

// drain reads the rest of a body after end. It reports whether it has reached the end of the body.
func (b *body) drain() bool {
	left := b.left.Load()
	c := b.conn
	if n := min(left, int64(len(c.in.bytes()))); n > 0 {
		c.in.consume(int(n))
		left -= n
	}
	b.left.Store(0)
	if left == 0 {
		return true
	}
	if left > maxDrain {
		return false
	}
	_ = c.link.rwc.SetReadDeadline(time.Now().Add(drainTime))
	var discarded [4 << 10]byte
	for left > 0 {
		n, err := c.link.rwc.Read(discarded[:min(left, int64(len(discarded)))])
		left -= int64(n)
		if n == 0 && err != nil {
			return false
		}
	}
	c.resetReadDeadline()
	return true
}
