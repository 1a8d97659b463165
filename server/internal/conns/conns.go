package conns

import (
	"container/list"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Options configure Conns. Max is required.
type Options struct {
	// Name is the name of the listener in the log.
	Name string
	// Max is the maximum number of connections.
	Max int
	// PerAddress is the maximum number of connections of one address; an IPv6 address counts as its /64 network. Default a
	// quarter of Max, but at least 64. Negative for Max.
	PerAddress int
	// Exempt reports whether PerAddress does not apply to an address, such as the address of a proxy. Default nil: no
	// address is exempt.
	Exempt func(netip.Addr) bool
	// Descriptors are the file descriptors that the listener may use. Default any number.
	Descriptors Share
	// Refusal is sent to connections that are refused. Default nothing.
	Refusal string
	// Logger logs refused and reclaimed connections, at most one line in ten seconds. Default slog.Default().
	Logger *slog.Logger
}

// defaultPerAddress returns the default of Options.PerAddress.
func defaultPerAddress(limit int) int { return max(limit/4, min(limit, 64)) }

// Conns has the connections of one or several listeners. Create it with New. It is safe for concurrent use.
type Conns struct {
	options Options
	epoch   time.Time

	mu     sync.Mutex
	all    list.List            // of *Conn, in the order of their arrival
	open   int                  // number of connections that are not upgraded
	used   int                  // number of descriptors in use
	peers  map[netip.Addr]*peer // the peers that PerAddress applies to, by Network
	exempt peer                 // connections that PerAddress does not apply to
	counts Counts
	report report

	reclaimFailed time.Duration                 // when the last attempt to reclaim connections of any peer failed
	candidates    [kinds][weightClasses][]*Conn // reused by reclaim and reclaimAny; empty between calls
}

// Counts are totals since New.
type Counts struct {
	// Accepted and Refused count new connections. Reclaimed counts connections that were closed to make room for others.
	Accepted, Refused, Reclaimed int64
}

// A peer is an address with connections, or the network of an IPv6 address.
type peer struct {
	addr          netip.Addr
	conns         list.List     // of *Conn, in the order of their arrival
	reclaimFailed time.Duration // when the last attempt to reclaim one of the connections failed
}

// New returns Conns without connections.
func New(o Options) *Conns {
	if o.Descriptors.Shared != nil {
		o.Max = min(o.Max, o.Descriptors.Reserved+o.Descriptors.Shared.total)
	}
	switch {
	case o.PerAddress == 0:
		o.PerAddress = defaultPerAddress(o.Max)
	case o.PerAddress < 0 || o.PerAddress > o.Max:
		o.PerAddress = o.Max
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Conns{options: o, epoch: time.Now(), peers: make(map[netip.Addr]*peer), reclaimFailed: -retryAfter}
}

// Open returns the number of connections that are not upgraded.
func (c *Conns) Open() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.open)
}

// Counts returns the current counts.
func (c *Conns) Counts() Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts
}

func (c *Conns) now() time.Duration { return time.Since(c.epoch) }

// Listener returns a listener whose Accept returns connections within the limits as *Conn. It closes other connections.
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

// Admit counts a connection until it is closed. If there are too many connections, it closes nc and returns nil. exempt
// means that PerAddress does not apply, or that the client's address is not known yet; see Conn.SetAddr.
func (c *Conns) Admit(nc net.Conn, exempt bool) *Conn {
	addr := addrOf(nc.RemoteAddr())
	exempt = exempt || !addr.IsValid() || c.options.Exempt != nil && c.options.Exempt(addr)
	if !exempt {
		addr = Network(addr)
	}
	conn := &Conn{Conn: nc, conns: c, opened: c.now()}
	conn.state.Store(uint32(Unused))
	c.mu.Lock()
	p := &c.exempt
	if !exempt {
		p = c.peer(addr)
	}
	reason := c.makeRoom(p, conn.opened)
	if reason != notRefused {
		c.removeIfEmpty(p)
		c.counts.Refused++
		c.recordRefusal(reason, addr, p.conns.Len())
		c.mu.Unlock()
		c.refuse(nc)
		return nil
	}
	if !exempt {
		p = c.peer(addr) // again, because the peer may have been removed while c.mu was released
	}
	c.open++
	c.counts.Accepted++
	c.link(conn, p)
	c.mu.Unlock()
	return conn
}

// refuse closes a connection that exceeds a limit.
func (c *Conns) refuse(nc net.Conn) {
	if text := c.options.Refusal; text != "" {
		_ = nc.SetWriteDeadline(time.Now().Add(time.Millisecond)) // enough for a line in an empty buffer
		_, _ = nc.Write([]byte(text))                             // it does not matter if the client does not get it
	} else if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // resets the connection, without waiting for the client
	}
	_ = nc.Close()
}

// peer returns the peer of an address, and creates it if necessary. c.mu is held.
func (c *Conns) peer(addr netip.Addr) *peer {
	p := c.peers[addr]
	if p == nil {
		p = &peer{addr: addr, reclaimFailed: -retryAfter}
		c.peers[addr] = p
	}
	return p
}

// removeIfEmpty removes a peer without connections. c.mu is held.
func (c *Conns) removeIfEmpty(p *peer) {
	if p.conns.Len() == 0 && c.peers[p.addr] == p {
		delete(c.peers, p.addr)
	}
}

// link adds a connection. c.mu is held.
func (c *Conns) link(conn *Conn, p *peer) {
	conn.inAll = c.all.PushBack(conn)
	c.joinPeer(conn, p)
}

// joinPeer adds a connection to those of an address. c.mu is held.
func (c *Conns) joinPeer(conn *Conn, p *peer) {
	conn.peer = p
	conn.inPeer = p.conns.PushBack(conn)
}

// unlink removes a connection. c.mu is held.
func (c *Conns) unlink(conn *Conn) {
	c.all.Remove(conn.inAll)
	c.leavePeer(conn)
	conn.peer = nil
	if !conn.upgraded {
		c.open--
	}
	c.giveDescriptor()
}

// leavePeer removes a connection from those of its address. c.mu is held.
func (c *Conns) leavePeer(conn *Conn) {
	conn.peer.conns.Remove(conn.inPeer)
	c.removeIfEmpty(conn.peer)
}

// remove removes a closed connection.
func (c *Conns) remove(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.peer != nil {
		c.unlink(conn)
	}
}

// addrOf returns the address of a peer. It is invalid for a Unix socket.
func addrOf(addr net.Addr) netip.Addr {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// ipv6Bits is the usual length of the IPv6 prefix of one customer.
const ipv6Bits = 64

// Network returns the address by which connections are counted. For IPv6, this is the address of the /64 network, and
// otherwise addr itself.
func Network(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	p, err := addr.Prefix(ipv6Bits)
	if err != nil { // impossible, because every IPv6 address has a /64 network
		return addr
	}
	return p.Addr()
}
