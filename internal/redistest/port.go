package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	host = "127.0.0.1"
	// busOffset is how far a cluster node's port for other nodes is above the one for clients.
	busOffset = 10_000
)

// errPortTaken says that somebody else was quicker.
var errPortTaken = errors.New("the port is taken")

// A place is a port, and the one for cluster nodes above it, that no other server of these tests can have until it is
// given up, in whichever process: a server that is down for a while finds its port as it left it.
//
// What holds it is the port of the same number for UDP, on which no Redis listens. The system lets go of that too when a
// process dies.
type place struct {
	port  int
	holds []net.PacketConn
}

// takePlace returns a place on whose ports nobody listens. They are not among those that the system hands out.
func takePlace() (*place, error) {
	for range 100 {
		p := &place{port: 10_000 + rand.IntN(10_000)}
		if p.hold(p.port) && p.hold(p.port+busOffset) {
			return p, nil
		}
		p.giveUp()
	}
	return nil, errors.New("redistest: no free port between 10000 and 20000 in 100 tries")
}

func (p *place) hold(port int) bool {
	held, err := net.ListenPacket("udp", address(port))
	if err != nil {
		return false
	}
	p.holds = append(p.holds, held)
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	hangUp(l)
	return true
}

func (p *place) giveUp() {
	for _, held := range p.holds {
		hangUp(held)
	}
	p.holds = nil
}

func address(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
