package gateway

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/identity/proxyproto"
)

// A Listener is where clients connect.
type Listener struct {
	// Address is host:port, :port, or unix: and a path. Port 0 picks one; Gateway.Addrs tells which.
	Address string
	// TLS says with what to prove who we are. Default nil: no TLS.
	TLS *TLS
	// NoHTTP2 leaves HTTP/1.1 alone. Default is HTTP/2 too: over TLS by ALPN, else for clients that begin with it (h2c).
	NoHTTP2 bool
	// ProxyProtocol are the networks of load balancers that begin each connection with the PROXY protocol. Default none,
	// and it is not read.
	ProxyProtocol []netip.Prefix
}

func (l *Listener) check(k *checker, field string) {
	switch network, address := l.split(); {
	case network == "unix" && address == "":
		k.add(field+".Address", quote(l.Address), "a path after unix:")
	case network == "unix":
		if len(l.ProxyProtocol) > 0 {
			k.add(field+".ProxyProtocol", "", "none with a socket of Unix, as peers have no address there")
		}
	default:
		if _, _, err := net.SplitHostPort(address); err != nil {
			k.add(field+".Address", quote(l.Address), "host:port, :port, or unix: and a path")
		}
	}
	if len(l.ProxyProtocol) > 0 {
		if err := (proxyproto.Config{Trusted: l.ProxyProtocol}).Validate(); err != nil {
			k.add(field+".ProxyProtocol", err.Error(), "the networks of load balancers, such as 10.0.0.0/8")
		}
	}
	if l.TLS != nil {
		l.TLS.check(k, field+".TLS")
	}
}

// split returns what net.Listen takes.
func (l *Listener) split() (network, address string) {
	if path, ok := strings.CutPrefix(l.Address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", l.Address
}

// listen opens the listener.
func (l *Listener) listen() (net.Listener, error) {
	network, address := l.split()
	if network == "unix" {
		removeStale(address)
	}
	return net.Listen(network, address)
}

// removeStale removes the socket of a process that is gone, so that its successor can listen. One that somebody listens on
// stays, and so does what is no socket.
func removeStale(path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return
	}
	_ = os.Remove(path) // net.Listen will tell
}

// conns counts the connections of clients, over all listeners.
type conns struct {
	most     int64
	now      atomic.Int64
	accepted atomic.Int64
	refused  atomic.Int64
	stopped  atomic.Bool // accept no more than what has come already
}

// A boundedListener closes connections that are too many.
type boundedListener struct {
	net.Listener
	conns *conns
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if l.conns.stopped.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
				return nil, net.ErrClosed
			}
			return nil, err
		}
		if l.conns.now.Add(1) <= l.conns.most {
			l.conns.accepted.Add(1)
			return conn, nil
		}
		l.conns.now.Add(-1)
		l.conns.refused.Add(1)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // no time spent on who is not served
		}
		_ = conn.Close()
	}
}

// stopSoon takes what already waits to be accepted, and then no more.
func (l *boundedListener) stopSoon(wait time.Duration) error {
	if tcp, ok := l.Listener.(*net.TCPListener); ok {
		_ = refuseNew(tcp) // where that cannot be done, a client may be unlucky
	}
	if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		return d.SetDeadline(time.Now().Add(wait))
	}
	return l.Close()
}

// readProxies puts the PROXY protocol around a listener, if it is configured. TLS comes around that: the header of the one
// comes before the handshake of the other.
func (g *Gateway) readProxies(l *Listener, inner net.Listener) (net.Listener, error) {
	if len(l.ProxyProtocol) == 0 {
		return inner, nil
	}
	return proxyproto.NewListener(inner, proxyproto.Config{
		Trusted: l.ProxyProtocol, Timeout: g.config.HeaderTimeout, Logger: g.noise.log("PROXY protocol"),
	})
}
