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

// freePort returns a port that nobody listens on, nor on the one for cluster nodes above it. It is not one of those that
// the system hands out, so that a server which is down can have it again.
func freePort() (int, error) {
	for range 100 {
		port := 10_000 + rand.IntN(10_000)
		if free(port) && free(port+busOffset) {
			return port, nil
		}
	}
	return 0, errors.New("redistest: no free port between 10000 and 20000 in 100 tries")
}

func free(port int) bool {
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	hangUp(l)
	return true
}

func address(port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
