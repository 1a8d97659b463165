package conns

import (
	"container/list"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// A Kind is the state of a connection. It determines whether the connection may be closed to make room for others.
type Kind uint8

// The kinds of connections. Later kinds are closed first.
const (
	// Busy connections serve a request. They are never closed to make room.
	Busy Kind = iota
	// Idle connections wait for the next request.
	Idle
	// Unused connections have received nothing yet. In their first second they count as Busy.
	Unused
	// Denied connections are idle, and their last request was denied.
	Denied

	kinds = iota
)

// claimed is the state of a connection that is being closed to make room.
const claimed uint32 = kinds

// unusedFor is the time for which a new connection without a request is protected.
const unusedFor = time.Second

// A Holder serves a connection and reports its kind. It replaces calls of Conn.SetKind.
type Holder interface {
	// ConnKind returns the current kind. It must not block.
	ConnKind() Kind
	// ClaimConn reports whether the connection is still of the given kind. If it is, the Holder must serve no further
	// request on it, because it will be closed. ClaimConn must not block.
	ClaimConn(Kind) bool
}

// A Conn is an accepted connection. It counts until it is closed.
type Conn struct {
	net.Conn
	conns  *Conns
	opened time.Duration
	state  atomic.Uint32 // a Kind, or claimed

	// The following fields are guarded by conns.mu.
	holder   Holder        // nil if state has the kind
	peer     *peer         // nil after the connection was removed
	inPeer   *list.Element // element of peer.conns
	inAll    *list.Element // element of conns.all
	upgraded bool
}

// A wrapper is a connection that wraps another one, such as *tls.Conn.
type wrapper interface{ NetConn() net.Conn }

// Of returns the Conn that nc wraps, directly or indirectly, or nc itself if it is a Conn. It returns nil if there is
// none.
func Of(nc net.Conn) *Conn {
	for {
		switch c := nc.(type) {
		case *Conn:
			return c
		case wrapper:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}

// Close closes the connection. From then on, it does not count.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.conns.remove(c)
	return err
}

// SetHolder sets the Holder that reports the kind of the connection. Without a Holder, SetKind sets the kind.
func (c *Conn) SetHolder(h Holder) {
	c.conns.mu.Lock()
	defer c.conns.mu.Unlock()
	c.holder = h
}

// SetState sets the kind of a connection. It is the ConnState function for an http.Server whose connections are Conns.
func SetState(nc net.Conn, state http.ConnState) {
	conn := Of(nc)
	switch {
	case conn == nil:
	case state == http.StateActive:
		conn.SetKind(Busy)
	case state == http.StateIdle:
		conn.SetKind(Idle)
	}
}

// SetKind sets the kind of the connection, unless it is being closed to make room.
func (c *Conn) SetKind(k Kind) {
	for {
		before := c.state.Load()
		if before == claimed || before == uint32(k) || c.state.CompareAndSwap(before, uint32(k)) {
			return
		}
	}
}

// kind returns the current kind. conns.mu is held.
func (c *Conn) kind(now time.Duration) Kind {
	k := Busy
	switch {
	case c.upgraded: // never closed to make room
	case c.holder != nil:
		k = c.holder.ConnKind()
	default:
		if state := c.state.Load(); state < claimed {
			k = Kind(state)
		}
	}
	if k == Unused && now-c.opened < unusedFor {
		return Busy
	}
	return k
}

// claim marks the connection as being closed if it is still of kind k, and reports whether it is. conns.mu is held.
func (c *Conn) claim(k Kind) bool {
	if c.holder != nil {
		return c.holder.ClaimConn(k)
	}
	return c.state.CompareAndSwap(uint32(k), claimed)
}

// ErrTooMany is returned by SetAddr for an address that has too many connections.
var ErrTooMany = errors.New("too many connections of this address")

// SetAddr sets the address of the client behind a load balancer. It returns ErrTooMany if that address has too many
// connections; the caller must then close this connection.
func (c *Conn) SetAddr(addr netip.Addr) error {
	addr = addr.Unmap().WithZone("")
	s := c.conns
	if !addr.IsValid() || s.options.Exempt != nil && s.options.Exempt(addr) {
		return nil
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.peer == nil {
		return nil // the connection was removed
	}
	newPeer := s.peer(Network(addr))
	if newPeer == c.peer {
		return nil
	}
	if newPeer.conns.Len() >= s.options.PerAddress && !s.reclaim(newPeer, now) {
		s.removeIfEmpty(newPeer)
		s.counts.Refused++
		s.recordRefusal(addressFull, newPeer.addr, newPeer.conns.Len())
		return ErrTooMany
	}
	if c.peer != nil { // the connection was not removed while reclaim had released the mutex
		s.leavePeer(c)
		s.joinPeer(c, s.peer(newPeer.addr))
	}
	return nil
}

// SetUpgraded marks a connection as upgraded to another protocol. It still counts for its address, but not for the
// listener.
func (c *Conn) SetUpgraded() {
	c.conns.mu.Lock()
	defer c.conns.mu.Unlock()
	if c.peer != nil && !c.upgraded {
		c.upgraded = true
		c.conns.open--
	}
}

var (
	_ syscall.Conn  = (*Conn)(nil)
	_ io.ReaderFrom = (*Conn)(nil)
)

// SyscallConn implements syscall.Conn with the wrapped connection.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// A HalfCloser is a connection whose sending side can be closed separately, such as *net.TCPConn.
type HalfCloser interface{ CloseWrite() error }

var _ HalfCloser = (*Conn)(nil)

// CloseWrite closes the sending side of the connection, or returns errors.ErrUnsupported.
func (c *Conn) CloseWrite() error { return CloseWrite(c.Conn) }

// CloseWrite closes the sending side of a connection if it is a HalfCloser; else it returns errors.ErrUnsupported.
func CloseWrite(c io.Writer) error {
	if half, ok := c.(HalfCloser); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// lingerTime is the time for which Linger waits for the end of the connection.
const lingerTime = 500 * time.Millisecond

// Linger must be called before a connection is closed if the client may still be sending. Otherwise bytes that arrive
// after the close would reset the connection, and the client might not receive the response. Linger closes the sending
// side of c. Then it discards the bytes that arrive on raw, which is the connection that c wraps, until the client
// closes it.
func Linger(c, raw net.Conn) {
	if CloseWrite(c) != nil {
		return
	}
	_ = raw.SetReadDeadline(time.Now().Add(lingerTime)) // if the connection is closed, reading fails
	var discarded [4 << 10]byte
	for range 1024 { // at most 4 MiB
		if _, err := raw.Read(discarded[:]); err != nil {
			return
		}
	}
}

// ReadFrom implements io.ReaderFrom. It uses sendfile if the wrapped connection supports it.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
