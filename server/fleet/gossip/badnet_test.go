package gossip

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// A badNet is what may be between hosts.
type badNet struct {
	delay time.Duration

	mu   sync.Mutex
	rand *rand.Rand
	loss float64         // of packets; streams are not touched
	cut  map[string]bool // by address
	side map[string]bool // by address: one half cannot reach the other
}

func newBadNet() *badNet {
	return &badNet{rand: rand.New(rand.NewPCG(1, 1)), cut: map[string]bool{}}
}

func (n *badNet) sever(addr string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[addr] = cut
}

func (n *badNet) severed(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[from] || n.cut[to] || n.side[from] != n.side[to]
}

func (n *badNet) part(side map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.side = side
}

func (n *badNet) loses() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rand.Float64() < n.loss
}

func (n *badNet) wrap(t *memberlist.NetTransport) memberlist.NodeAwareTransport {
	return &badTransport{NetTransport: t, net: n, addr: fmt.Sprint("127.0.0.1:", t.GetAutoBindPort())}
}

type badTransport struct {
	*memberlist.NetTransport
	net  *badNet
	addr string
}

var _ memberlist.NodeAwareTransport = (*badTransport)(nil)

func (b *badTransport) WriteToAddress(p []byte, to memberlist.Address) (time.Time, error) {
	if b.net.severed(b.addr, to.Addr) || b.net.loses() {
		return time.Now(), nil
	}
	if b.net.delay == 0 {
		return b.NetTransport.WriteToAddress(p, to)
	}
	p = append([]byte(nil), p...)
	time.AfterFunc(b.net.delay, func() { _, _ = b.NetTransport.WriteToAddress(p, to) }) // lost if it is closed by then
	return time.Now(), nil
}

func (b *badTransport) WriteTo(p []byte, addr string) (time.Time, error) {
	return b.WriteToAddress(p, memberlist.Address{Addr: addr})
}

var errSevered = errors.New("severed by the test")

func (b *badTransport) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if b.net.severed(b.addr, to.Addr) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errSevered}
	}
	return b.NetTransport.DialAddressTimeout(to, timeout)
}

func (b *badTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return b.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}
