package conns

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// Split returns the network and the address to give to net.Listen or net.Dial: those of a Unix socket for unix: and a path,
// of TCP for all else.
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

// Listen opens a listener on host:port, or on a Unix socket for unix: and a path. A socket that a process has left behind is
// replaced; one that is in use is not. The socket has the permissions that the process's umask leaves, and is removed when
// the listener is closed.
func Listen(addr string) (net.Listener, error) {
	network, address := Split(addr)
	if network == "unix" {
		removeStale(address)
	}
	return net.Listen(network, address)
}

// dialTimeout is how long the process behind a socket may take to accept.
const dialTimeout = time.Second

// removeStale removes a socket that nobody listens on. It leaves other files alone.
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
	if errors.Is(err, syscall.ECONNREFUSED) { // by a socket in use, with a full backlog, it fails with EAGAIN
		_ = os.Remove(path) // if it fails, net.Listen says so
	}
}
