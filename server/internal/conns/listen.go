package conns

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// Split returns the network and the address for net.Listen or net.Dial. An addr that begins with "unix:" is the path of
// a Unix socket; any other addr is an address for TCP.
func Split(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, unixPrefix); ok {
		return "unix", path
	}
	return "tcp", addr
}

// Join is the inverse of Split.
func Join(addr net.Addr) string {
	if addr.Network() == "unix" {
		return unixPrefix + addr.String()
	}
	return addr.String()
}

// Listen opens a listener on host:port, or on a Unix socket if addr is unix: and a path. It replaces a socket that an
// earlier process has not removed, but not a socket that is in use. The umask of the process determines the permissions
// of the socket. The socket is removed when the listener is closed.
func Listen(addr string) (net.Listener, error) {
	network, address := Split(addr)
	if network == "unix" {
		removeStale(address)
	}
	return listenConfig.Listen(context.Background(), network, address)
}

// dialTimeout limits the time to test whether a process listens on a socket.
const dialTimeout = time.Second

// removeStale removes path if it is a socket on which no process listens.
func removeStale(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		_ = conn.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) { // a socket in use with a full backlog returns EAGAIN
		_ = os.Remove(path) // if this fails, net.Listen returns an error
	}
}
