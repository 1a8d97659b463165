package conns

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Options are the settings of Conns. Most must be given.
type Options struct {
	// Name is that of the listener in the log.
	Name string
	// Most is how many connections there may be at once.
	Most int
	// PerAddress is how many of them one address may have; an IPv6 address counts as its network of 64 bits. Default a
	// quarter of Most, but at least 64. Below zero: as many as Most.
	PerAddress int
	// Exempt, if any, reports whether an address may have any number, as a proxy with many clients.
	Exempt func(netip.Addr) bool
	// Descriptors are those that the listener may use. Default any number.
	Descriptors Share
	// Farewell is sent to a connection that is refused. Default nothing.
	Farewell string
	// Logger gets a line about connections that are refused or closed to make room, at most one in ten seconds. Default
	// slog.Default().
	Logger *slog.Logger
}

// defaultPerAddress returns the default of Options.PerAddress.
func defaultPerAddress(most int) int { return max(most/4, min(most, 64)) }

// Conns are the connections of one or several listeners. Make one with New. It is safe for concurrent use.
type Conns struct {
	options Options
	epoch   time.Time

	mu        sync.Mutex
	open      int             // connections, without those that were upgraded
	used      int             // descriptors
	peers     map[place]*peer // those that are bounded
	exempt    peer            // all others
	newest    *Conn           // the last of a list of all, in the order in which they came
	oldest    *Conn           // the first
	failed    time.Duration   // when nothing could be reclaimed
	counts    Counts
	report    report
	victimsOf [kinds][weights][]*Conn // for reclaim
}

// Counts is what has happened since New.
type Counts struct {
	// Accepted and Refused are connections that came. Reclaimed were closed to make room for others.
	Accepted, Refused, Reclaimed int64
}

// place is what connections are counted by: an address, or a network of IPv6.
type place = netip.Addr

// A peer is an address with connections.
type peer struct {
	addr   place
	first  *Conn // the oldest
	last   *Conn
	count  int
	failed time.Duration // when none of them could be reclaimed
}

// New returns Conns.
func New(o Options) *Conns {
	if o.Descriptors.Shared != nil {
		o.Most = min(o.Most, o.Descriptors.Reserved+o.Descriptors.Shared.total)
	}
	switch {
	case o.PerAddress == 0:
		o.PerAddress = defaultPerAddress(o.Most)
	case o.PerAddress < 0 || o.PerAddress > o.Most:
		o.PerAddress = o.Most
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Conns{options: o, epoch: time.Now(), peers: make(map[place]*peer), failed: -retryAfter}
}

// Open returns how many connections there are, without those that were upgraded.
func (c *Conns) Open() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.open)
}

// Counts returns what has happened.
func (c *Conns) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

// Most returns how many connections there may be: Options.Most, or fewer if there are not enough descriptors.
func (c *Conns) Most() int { return c.options.Most }

func (c *Conns) now() time.Duration { return time.Since(c.epoch) }

// Listener returns a listener that closes connections which are too many. Others are *Conn.
func (c *Conns) Listener(l net.Listener) net.Listener { return &listener{Listener: l, conns: c} }

type listener struct {
	net.Listener
	conns *Conns
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if conn := l.conns.Admit(nc, false); conn != nil {
			return conn, nil
		}
	}
}

// Admit gives a connection its place, which it has until it is closed. It returns nil if there is none, and has closed the
// connection. exempt says that its address is not bounded, or not known yet.
func (c *Conns) Admit(nc net.Conn, exempt bool) *Conn {
	addr := placeOf(nc.RemoteAddr())
	exempt = exempt || !addr.IsValid() || c.options.Exempt != nil && c.options.Exempt(addr)
	if !exempt {
		addr = Network(addr)
	}
	conn := &Conn{Conn: nc, conns: c, opened: c.now()}
	conn.state.Store(uint32(Unused))
	c.mu.Lock()
	from := &c.exempt
	if !exempt {
		from = c.peer(addr)
	}
	why := c.makeRoom(from, conn.opened)
	if why != nothing {
		c.drop(from)
		c.counts.Refused++
		c.note(why, addr, from.count)
		c.mu.Unlock()
		c.refuse(nc)
		return nil
	}
	if !exempt {
		from = c.peer(addr) // it may have been dropped while connections were closed
	}
	c.open++
	c.counts.Accepted++
	c.link(conn, from)
	c.mu.Unlock()
	return conn
}

// refuse closes a connection that has no place.
func (c *Conns) refuse(nc net.Conn) {
	if text := c.options.Farewell; text != "" {
		_ = nc.SetWriteDeadline(time.Now().Add(time.Millisecond)) // there is room for a line
		_, _ = nc.Write([]byte(text))                             // or not
	} else if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // no time is spent on connections that are not served
	}
	_ = nc.Close()
}

// peer returns the peer of an address. c.mu is held.
func (c *Conns) peer(addr place) *peer {
	p := c.peers[addr]
	if p == nil {
		p = &peer{addr: addr, failed: -retryAfter}
		c.peers[addr] = p
	}
	return p
}

// drop forgets a peer without connections. c.mu is held.
func (c *Conns) drop(p *peer) {
	if p.count == 0 && c.peers[p.addr] == p {
		delete(c.peers, p.addr)
	}
}

// link adds a connection. c.mu is held.
func (c *Conns) link(conn *Conn, to *peer) {
	c.joinPeer(conn, to)
	if conn.prev = c.newest; c.newest != nil {
		c.newest.next = conn
	} else {
		c.oldest = conn
	}
	c.newest = conn
}

// joinPeer adds a connection to those of an address. c.mu is held.
func (c *Conns) joinPeer(conn *Conn, to *peer) {
	conn.peer = to
	to.count++
	if conn.peerPrev = to.last; to.last != nil {
		to.last.peerNext = conn
	} else {
		to.first = conn
	}
	to.last = conn
}

// unlink removes a connection. c.mu is held.
func (c *Conns) unlink(conn *Conn) {
	c.leavePeer(conn)
	if conn.prev != nil {
		conn.prev.next = conn.next
	} else {
		c.oldest = conn.next
	}
	if conn.next != nil {
		conn.next.prev = conn.prev
	} else {
		c.newest = conn.prev
	}
	conn.prev, conn.next, conn.peer = nil, nil, nil
	if !conn.upgraded {
		c.open--
	}
	c.give()
}

// leavePeer removes a connection from those of its address. c.mu is held.
func (c *Conns) leavePeer(conn *Conn) {
	p := conn.peer
	p.count--
	if conn.peerPrev != nil {
		conn.peerPrev.peerNext = conn.peerNext
	} else {
		p.first = conn.peerNext
	}
	if conn.peerNext != nil {
		conn.peerNext.peerPrev = conn.peerPrev
	} else {
		p.last = conn.peerPrev
	}
	conn.peerPrev, conn.peerNext = nil, nil
	c.drop(p)
}

// remove frees the place of a connection that is closed.
func (c *Conns) remove(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.peer != nil {
		c.unlink(conn)
	}
}

// placeOf returns the address of a peer, not valid for a Unix socket.
func placeOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// ipv6Bits is how many bits of an IPv6 address one customer usually has no choice of.
const ipv6Bits = 64

// Network returns what an address is counted by: its network of 64 bits if it is one of IPv6, else itself.
func Network(addr netip.Addr) place {
	if !addr.Is6() {
		return addr
	}
	p, err := addr.Prefix(ipv6Bits)
	if err != nil { // an IPv6 address always has one
		return addr
	}
	return p.Addr()
}
