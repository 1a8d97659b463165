package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

const (
	host = "127.0.0.1"
	// busOffset is the distance of a cluster node's bus port from its client port.
	busOffset = 10_000
)

// errPortTaken means that another process has taken the port.
var errPortTaken = errors.New("the port is taken")

// reservedPorts are a client port and its cluster bus port. Until they are released, no other server of these tests can
// take them, in any process. So a server that is down for a while keeps its ports.
//
// A port is reserved by listening on the UDP port with the same number, which Redis does not use. The system releases
// it when the process dies.
type reservedPorts struct {
	port    int
	sockets []net.PacketConn // on the UDP ports
}

// reservePorts reserves two ports that are free. They are outside of the ephemeral range.
func reservePorts() (*reservedPorts, error) {
	for range 100 {
		p := &reservedPorts{port: 10_000 + rand.IntN(10_000)}
		if p.reserve(p.port) && p.reserve(p.port+busOffset) {
			return p, nil
		}
		p.release()
	}
	return nil, errors.New("redistest: no free port between 10000 and 20000 in 100 tries")
}

// reserve reserves a port, and reports whether it is free.
func (p *reservedPorts) reserve(port int) bool {
	socket, err := net.ListenPacket("udp", address(port))
	if err != nil {
		return false
	}
	p.sockets = append(p.sockets, socket)
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	closeQuietly(l)
	return true
}

func (p *reservedPorts) release() {
	for _, socket := range p.sockets {
		closeQuietly(socket)
	}
	p.sockets = nil
}

func address(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
