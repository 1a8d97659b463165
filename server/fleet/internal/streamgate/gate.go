package streamgate

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

const (
	// maxBytes is the maximum number of bytes that are read from a stream. This is enough for the state of a host, and
	// the names and addresses of some thousand hosts.
	maxBytes = 1 << 20
	// maxOpen is the maximum number of open streams from hosts that are not members. A stream lasts at most
	// memberlist.Config.TCPTimeout.
	maxOpen = 32
	// maxNodes is the maximum number of hosts that a stream may announce. memberlist allocates memory for all announced
	// hosts before it reads any.
	maxNodes = maxBytes / 64
)

// MaxFromAddress is the maximum number of open streams from one address.
const MaxFromAddress = 8

var (
	errTooLong = fmt.Errorf("stream of more than %d bytes", maxBytes)
	errKind    = errors.New("stream starts with a message type that Headgate never sends")
)

// Types of memberlist's messages that a stream may start with.
const (
	pushPullMessage  = 6
	userMessage      = 8
	compressMessage  = 9
	encryptedMessage = 10
	labelMessage     = 244
)

// A Gate is a transport that limits the number of incoming streams, and the bytes that are read from each.
type Gate struct {
	memberlist.NodeAwareTransport
	isMember  func(netip.Addr) bool
	onRefused func(addr string, err error)
	streams   chan net.Conn
	closed    chan struct{}
	ended     chan struct{}

	mu       sync.Mutex
	open     int                  // number of open streams from hosts that are not members
	openFrom map[netip.Prefix]int // number of open streams by address, also from members

	refused atomic.Int64
}

var _ memberlist.NodeAwareTransport = (*Gate)(nil)

// New returns a Gate in front of t. isMember reports whether an address belongs to a member. Streams of members are
// accepted even if many other streams are open. onRefused is called with the address of a stream that was refused.
func New(
	t memberlist.NodeAwareTransport, isMember func(netip.Addr) bool, onRefused func(addr string, err error),
) *Gate {
	g := &Gate{
		NodeAwareTransport: t, isMember: isMember, onRefused: onRefused, openFrom: map[netip.Prefix]int{},
		streams: make(chan net.Conn), closed: make(chan struct{}), ended: make(chan struct{}),
	}
	go g.accept()
	return g
}

// accept passes accepted streams to memberlist until Shutdown.
func (g *Gate) accept() {
	defer close(g.ended)
	for {
		select {
		case conn := <-g.NodeAwareTransport.StreamCh():
			stream, ok := g.reserve(conn)
			if !ok {
				_ = conn.Close()
				continue
			}
			select {
			case g.streams <- stream:
			case <-g.closed:
				_ = stream.Close()
				return
			}
		case <-g.closed:
			return
		}
	}
}

// StreamCh implements memberlist.Transport.
func (g *Gate) StreamCh() <-chan net.Conn { return g.streams }

// Refused returns the number of refused streams.
func (g *Gate) Refused() int64 { return g.refused.Load() }

// Shutdown implements memberlist.Transport.
func (g *Gate) Shutdown() error {
	err := g.NodeAwareTransport.Shutdown() // first, because it may wait until accept has received its last stream
	close(g.closed)
	<-g.ended
	return err
}

// DialAddressTimeout implements memberlist.NodeAwareTransport. It limits the size of responses, too.
func (g *Gate) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := g.NodeAwareTransport.DialAddressTimeout(to, timeout)
	if err != nil {
		return nil, err
	}
	return newStream(conn, func() {}), nil
}

// reserve counts an incoming stream, and wraps it. It returns false if too many streams are open.
func (g *Gate) reserve(conn net.Conn) (net.Conn, bool) {
	addr := conn.RemoteAddr().String()
	var ip netip.Addr
	if at, err := netip.ParseAddrPort(addr); err == nil {
		ip = at.Addr().Unmap()
	}
	from := sourceOf(ip)
	member := g.isMember(ip)
	g.mu.Lock()
	full := g.openFrom[from] >= MaxFromAddress || !member && g.open >= maxOpen
	if !full {
		g.openFrom[from]++
		if !member {
			g.open++
		}
	}
	g.mu.Unlock()
	if full {
		g.refused.Add(1)
		g.onRefused(addr, errors.New("too many open streams"))
		return nil, false
	}
	return newStream(conn, func() { g.release(from, member) }), true
}

func (g *Gate) release(from netip.Prefix, member bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.openFrom[from]--; g.openFrom[from] == 0 {
		delete(g.openFrom, from)
	}
	if !member {
		g.open--
	}
}

// sourceOf returns the network whose addresses count as one address. For IPv6, this is a /64 network, because a single
// host can use all addresses of such a network.
func sourceOf(ip netip.Addr) netip.Prefix {
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.WithZone("").Prefix(bits) // an invalid address has the zero Prefix
	return p
}

// A stream is a connection from which at most maxBytes are read. If it announces a longer message, Read fails at once.
type stream struct {
	net.Conn
	in      *bufio.Reader
	left    int
	checked bool
	closing sync.Once
	release func()
}

func newStream(conn net.Conn, release func()) *stream {
	return &stream{Conn: conn, in: bufio.NewReader(conn), left: maxBytes, release: release}
}

// Read implements net.Conn. It is not safe for concurrent use.
func (s *stream) Read(p []byte) (int, error) {
	if !s.checked {
		if err := checkStream(s.in); err != nil {
			return 0, err
		}
		s.checked = true
	}
	if s.left == 0 {
		return 0, errTooLong
	}
	n, err := s.in.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.closing.Do(s.release)
	return s.Conn.Close()
}

// checkStream checks the start of a stream. It refuses a stream for which memberlist would allocate too much memory.
// memberlist itself checks everything else.
func checkStream(in *bufio.Reader) error {
	head, err := in.Peek(1)
	if err != nil {
		return err
	}
	at := 0 // index of the type
	if head[0] == labelMessage {
		if head, err = in.Peek(2); err != nil {
			return err
		}
		at = 2 + int(head[1])
		if head, err = in.Peek(at + 1); err != nil {
			return err
		}
	}
	switch head[at] {
	case encryptedMessage:
		if head, err = in.Peek(at + 5); err != nil {
			return err
		}
		if binary.BigEndian.Uint32(head[at+1:]) > maxBytes {
			return errTooLong
		}
	case pushPullMessage:
		return checkPushPull(in, at+1)
	case compressMessage, userMessage:
		return errKind
	}
	return nil
}

// pushPullHead is the maximum size of the header of memberlist's push/pull message. The whole message is always longer.
const pushPullHead = 48

// checkPushPull checks the sizes that an unencrypted push/pull message announces.
func checkPushPull(in *bufio.Reader, at int) error {
	head, err := in.Peek(at + pushPullHead)
	if err != nil {
		return err
	}
	var announced struct{ Nodes, UserStateLen int }
	if err := codec.NewDecoderBytes(head[at:], &codec.MsgpackHandle{}).Decode(&announced); err != nil {
		return fmt.Errorf("header of a state: %w", err)
	}
	if announced.Nodes > maxNodes || announced.UserStateLen > maxBytes {
		return errTooLong
	}
	return nil
}
