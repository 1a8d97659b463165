// Package tunnel connects a client and an upstream after an upgrade, for example to WebSocket. It copies bytes in both
// directions until both sides have ended, one side has failed, no bytes were sent for too long, or the set of tunnels
// is closed.
package tunnel

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/server/internal/conns"
)

// Options configure a Set.
type Options struct {
	// Max is the maximum number of tunnels.
	Max int64
	// IdleTimeout is the time without any bytes after which a tunnel is closed.
	IdleTimeout time.Duration
	// MaxAge is the maximum lifetime of a tunnel. 0: no maximum.
	MaxAge time.Duration
}

// A Set has the open tunnels. It is safe for concurrent use.
type Set struct {
	options Options
	epoch   time.Time

	reserved, total   atomic.Int64
	idled, aged, shut atomic.Int64 // tunnels closed because of IdleTimeout, MaxAge and CloseAll

	mu      sync.Mutex
	tunnels map[*Tunnel]struct{}
	closed  bool
	empty   chan struct{} // closed when the last tunnel is removed; nil unless Wait waits for it
}

// NewSet returns a Set without tunnels.
func NewSet(o Options) *Set {
	return &Set{options: o, epoch: time.Now(), tunnels: make(map[*Tunnel]struct{})}
}

// Stats count tunnels.
type Stats struct {
	// Open is the number of tunnels that are open or being opened. Total counts all tunnels since NewSet.
	Open, Total int64
	// Idle counts tunnels that were closed because of IdleTimeout, Aged because of MaxAge, and Shut by CloseAll.
	Idle, Aged, Shut int64
}

// Stats returns the current figures.
func (s *Set) Stats() Stats {
	return Stats{
		Open: s.reserved.Load(), Total: s.total.Load(), Idle: s.idled.Load(), Aged: s.aged.Load(), Shut: s.shut.Load(),
	}
}

// Reserve reserves one of Options.Max tunnels, and reports whether one was free. Release returns it.
func (s *Set) Reserve() bool {
	if s.reserved.Add(1) > s.options.Max {
		s.reserved.Add(-1)
		return false
	}
	return true
}

// Release returns a reservation.
func (s *Set) Release() { s.reserved.Add(-1) }

// A Tunnel has the two connections of an upgraded request: to the client and to the upstream.
type Tunnel struct {
	set       *Set
	client    net.Conn
	upstream  io.ReadWriteCloser
	active    atomic.Int64 // when bytes were last copied, in ns since set.epoch
	closeOnce sync.Once

	mu   sync.Mutex
	idle *time.Timer
}

// Add adds a tunnel between two connections, or returns nil if the Set is closed. The caller must call Remove later.
func (s *Set) Add(client net.Conn, upstream io.ReadWriteCloser) *Tunnel {
	t := &Tunnel{set: s, client: client, upstream: upstream}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.tunnels[t] = struct{}{}
	s.total.Add(1)
	return t
}

// Remove removes a tunnel.
func (s *Set) Remove(t *Tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tunnels, t)
	if s.empty != nil && len(s.tunnels) == 0 {
		close(s.empty)
		s.empty = nil
	}
}

// Wait waits until all tunnels are removed.
func (s *Set) Wait(ctx context.Context) error {
	s.mu.Lock()
	if len(s.tunnels) == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CloseAll closes all tunnels and the Set.
func (s *Set) CloseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for t := range s.tunnels {
		t.closeAndCount(&s.shut)
	}
}

func (s *Set) now() time.Duration { return time.Since(s.epoch) }

// Close closes both connections.
func (t *Tunnel) Close() { t.closeOnce.Do(t.closeBoth) }

// closeAndCount closes both connections, and adds one to count if they were open.
func (t *Tunnel) closeAndCount(count *atomic.Int64) {
	t.closeOnce.Do(func() {
		t.closeBoth()
		count.Add(1)
	})
}

func (t *Tunnel) closeBoth() {
	_ = t.client.Close()
	_ = t.upstream.Close()
}

// Copy copies bytes in both directions until the tunnel ends. early has buffered bytes that the client sent before Copy
// was called. Copy returns the number of bytes sent to the client.
func (t *Tunnel) Copy(early *bufio.Reader) int64 {
	s := t.set
	t.active.Store(int64(s.now()))
	t.mu.Lock()
	t.idle = time.AfterFunc(s.options.IdleTimeout, t.closeIfIdle)
	t.mu.Unlock()
	defer t.idle.Stop()
	if age := s.options.MaxAge; age > 0 {
		defer time.AfterFunc(age, func() { t.closeAndCount(&s.aged) }).Stop()
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		if n := early.Buffered(); n > 0 {
			if _, err := io.CopyN(t.upstream, early, int64(n)); err != nil {
				t.Close()
				return
			}
		}
		t.copyOneWay(t.upstream, t.client)
	}()
	n := t.copyOneWay(t.client, t.upstream)
	<-done
	return n
}

// closeIfIdle closes the tunnel if no bytes were copied for IdleTimeout. Otherwise it sets the timer again.
func (t *Tunnel) closeIfIdle() {
	if left := t.set.options.IdleTimeout - (t.set.now() - time.Duration(t.active.Load())); left > 0 {
		t.mu.Lock()
		t.idle.Reset(left)
		t.mu.Unlock()
		return
	}
	t.closeAndCount(&t.set.idled)
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// copyOneWay copies the bytes of one direction until src ends, and then closes the sending side of dst. After an error,
// it closes the tunnel.
func (t *Tunnel) copyOneWay(dst io.Writer, src io.Reader) (n int64) {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	for {
		read, err := src.Read(buffer[:])
		if read > 0 {
			t.active.Store(int64(t.set.now()))
			sent, writeErr := dst.Write(buffer[:read])
			n += int64(sent)
			if writeErr != nil {
				t.Close()
				return n
			}
			t.active.Store(int64(t.set.now()))
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) || conns.CloseWrite(dst) != nil {
			t.Close()
		}
		return n
	}
}
