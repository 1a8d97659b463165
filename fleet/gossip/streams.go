package gossip

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

// memberlist reads a whole stream into memory before it decrypts it, up to 20 MB, for any number of streams. So anyone who
// reaches the port could take all of a host's memory, with or without the key. A streamGate bounds both in front of it.
const (
	// maxStreamBytes is how much of one stream is read: a state, and the names and addresses of some thousand hosts.
	maxStreamBytes = 1 << 20
	// maxStreams is how many streams from hosts that are not members are open at once, and maxStreamsOf how many from one
	// address. A stream lasts for streamTimeout at most.
	maxStreams   = 32
	maxStreamsOf = 8
	// maxStreamNodes is how many hosts a stream may announce, for which memberlist makes room before it reads them.
	maxStreamNodes = maxStreamBytes / 64
)

var (
	errStreamLong = fmt.Errorf("stream of more than %d bytes", maxStreamBytes)
	errStreamKind = errors.New("stream of a kind that no host sends")
)

// Types of memberlist's messages, of those that a stream may begin with.
const (
	pushPullMessage  = 6
	userMessage      = 8
	compressMessage  = 9
	encryptedMessage = 10
	labelMessage     = 244
)

// A streamGate is a transport that bounds how many streams come in, and how much is read of each.
type streamGate struct {
	memberlist.NodeAwareTransport
	// member reports whether a member has that address. Members find a place however many others there are.
	member  func(netip.Addr) bool
	refused func(addr string, err error)
	streams chan net.Conn
	closed  chan struct{}
	ended   chan struct{}

	mu     sync.Mutex
	open   int                  // of those that are not members
	openOf map[netip.Prefix]int // by address

	count atomic.Int64 // of streams refused
}

var _ memberlist.NodeAwareTransport = (*streamGate)(nil)

func newStreamGate(t memberlist.NodeAwareTransport, member func(netip.Addr) bool, refused func(string, error)) *streamGate {
	g := &streamGate{
		NodeAwareTransport: t, member: member, refused: refused, openOf: map[netip.Prefix]int{},
		streams: make(chan net.Conn), closed: make(chan struct{}), ended: make(chan struct{}),
	}
	go g.accept()
	return g
}

// accept passes streams on until the gate is shut down.
func (g *streamGate) accept() {
	defer close(g.ended)
	for {
		select {
		case conn := <-g.NodeAwareTransport.StreamCh():
			stream, ok := g.admit(conn)
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
func (g *streamGate) StreamCh() <-chan net.Conn { return g.streams }

// Shutdown implements memberlist.Transport.
func (g *streamGate) Shutdown() error {
	err := g.NodeAwareTransport.Shutdown() // which may wait until its last stream is taken
	close(g.closed)
	<-g.ended
	return err
}

// DialAddressTimeout implements memberlist.NodeAwareTransport. What is answered is bounded as well.
func (g *streamGate) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := g.NodeAwareTransport.DialAddressTimeout(to, timeout)
	if err != nil {
		return nil, err
	}
	return newStream(conn, func() {}), nil
}

// admit reserves a place for a stream that has come in, if there is one.
func (g *streamGate) admit(conn net.Conn) (net.Conn, bool) {
	addr := conn.RemoteAddr().String()
	var ip netip.Addr
	if at, err := netip.ParseAddrPort(addr); err == nil {
		ip = at.Addr().Unmap()
	}
	from := sourceOf(ip)
	member := g.member(ip)
	g.mu.Lock()
	full := g.openOf[from] >= maxStreamsOf || !member && g.open >= maxStreams
	if !full {
		g.openOf[from]++
		if !member {
			g.open++
		}
	}
	g.mu.Unlock()
	if full {
		g.count.Add(1)
		g.refused(addr, errors.New("too many streams at once"))
		return nil, false
	}
	return newStream(conn, func() { g.release(from, member) }), true
}

func (g *streamGate) release(from netip.Prefix, member bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.openOf[from]--; g.openOf[from] == 0 {
		delete(g.openOf, from)
	}
	if !member {
		g.open--
	}
}

// sourceOf returns what counts as one address: of IPv6, a network of 64 bits, which a single host has.
func sourceOf(ip netip.Addr) netip.Prefix {
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.WithZone("").Prefix(bits) // the zero Prefix for an address that is none
	return p
}

// A stream is a connection of which at most maxStreamBytes are read, and nothing if it announces more.
type stream struct {
	net.Conn
	in      *bufio.Reader
	left    int
	checked bool
	closing sync.Once
	release func()
}

func newStream(conn net.Conn, release func()) *stream {
	return &stream{Conn: conn, in: bufio.NewReader(conn), left: maxStreamBytes, release: release}
}

// Read implements net.Conn. One goroutine reads.
func (s *stream) Read(p []byte) (int, error) {
	if !s.checked {
		if err := checkStream(s.in); err != nil {
			return 0, err
		}
		s.checked = true
	}
	if s.left == 0 {
		return 0, errStreamLong
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

// checkStream looks at how a stream begins, and refuses one for which memberlist would make too much room. Whether it may
// come in at all is for memberlist to say.
func checkStream(in *bufio.Reader) error {
	head, err := in.Peek(1)
	if err != nil {
		return err
	}
	at := 0 // of the type
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
		if binary.BigEndian.Uint32(head[at+1:]) > maxStreamBytes {
			return errStreamLong
		}
	case pushPullMessage:
		return checkPushPull(in, at+1)
	case compressMessage, userMessage:
		return errStreamKind
	}
	return nil
}

// pushPullHead is how many bytes the header of a state takes at most. A state is always longer.
const pushPullHead = 48

// checkPushPull looks at how much a state that is not encrypted announces.
func checkPushPull(in *bufio.Reader, at int) error {
	head, err := in.Peek(at + pushPullHead)
	if err != nil {
		return err
	}
	var announced struct{ Nodes, UserStateLen int }
	if err := codec.NewDecoderBytes(head[at:], &codec.MsgpackHandle{}).Decode(&announced); err != nil {
		return fmt.Errorf("header of a state: %w", err)
	}
	if announced.Nodes > maxStreamNodes || announced.UserStateLen > maxStreamBytes {
		return errStreamLong
	}
	return nil
}
