package gateway

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/identity/proxyproto"
	"github.com/headgate/headgate/server/internal/conns"
)

// A Listener configures an address on which the gateway accepts connections.
type Listener struct {
	// Address is host:port, :port, or unix: and a path. With port 0 the system chooses one; see Gateway.Addrs.
	Address string
	// TLS configures the certificates. Default nil: no TLS.
	TLS *TLS
	// NoHTTP2 disables HTTP/2. By default, clients can negotiate HTTP/2 over TLS (ALPN), and use it without TLS (h2c).
	NoHTTP2 bool
	// ProxyProtocol are the networks of load balancers that begin each connection with the PROXY protocol. Default none:
	// the PROXY protocol is not read.
	ProxyProtocol []netip.Prefix
}

func (l *Listener) validate(errs *configErrors, field string) {
	switch network, address := conns.Split(l.Address); {
	case network == "unix" && address == "":
		errs.add(field+".Address", quote(l.Address), "a path after unix:")
	case network == "unix":
		if len(l.ProxyProtocol) > 0 {
			errs.add(field+".ProxyProtocol", "", "none with a Unix socket, whose peers have no address")
		}
	default:
		if _, _, err := net.SplitHostPort(address); err != nil {
			errs.add(field+".Address", quote(l.Address), "host:port, :port, or unix: and a path")
		}
	}
	if len(l.ProxyProtocol) > 0 {
		if err := (proxyproto.Config{Trusted: l.ProxyProtocol}).Validate(); err != nil {
			errs.add(field+".ProxyProtocol", err.Error(), "the networks of load balancers, such as 10.0.0.0/8")
		}
	}
	if l.TLS != nil {
		l.TLS.validate(errs, field+".TLS")
	}
}

// A boundedListener limits the number of connections.
type boundedListener struct {
	net.Listener
	conns *conns.Conns
	// balancers are the networks of load balancers that use the PROXY protocol. For a connection from one of them, the
	// client's address is known only after the PROXY header was read.
	balancers []netip.Prefix

	acceptUntil    atomic.Int64 // when Accept ends after stopSoon, in nanoseconds since 1970; 0 before stopSoon
	emptyIntervals int          // consecutive intervals without a connection after stopSoon; see acceptInterval
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && l.acceptUntil.Load() != 0 {
				if err = l.extend(); err == nil {
					continue
				}
			}
			return nil, err
		}
		l.emptyIntervals = 0
		if admitted := l.conns.Admit(conn, l.isBalancer(conn.RemoteAddr())); admitted != nil {
			return admitted, nil
		}
	}
}

func (l *boundedListener) isBalancer(peer net.Addr) bool {
	if len(l.balancers) == 0 {
		return false
	}
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := tcp.AddrPort().Addr().Unmap()
	return slices.ContainsFunc(l.balancers, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// After stopSoon, a listener is closed when no connection has arrived for three intervals of acceptInterval, and at the
// latest after acceptTime. On a busy machine, connections may be delayed for longer than one interval.
const (
	acceptInterval = 25 * time.Millisecond
	acceptTime     = 500 * time.Millisecond
)

// A deadliner is a listener that can set a deadline for Accept, such as *net.TCPListener.
type deadliner interface{ SetDeadline(time.Time) error }

// finishAccepting makes Accept return the connections that are already established, and then net.ErrClosed.
func (l *boundedListener) finishAccepting() error {
	d, ok := l.Listener.(deadliner)
	if !ok {
		return l.Close()
	}
	now := time.Now()
	l.acceptUntil.Store(now.Add(acceptTime).UnixNano())
	return d.SetDeadline(now.Add(acceptInterval))
}

// extend lets Accept wait for another acceptInterval, or returns net.ErrClosed.
func (l *boundedListener) extend() error {
	now := time.Now()
	l.emptyIntervals++
	if l.emptyIntervals > 2 || now.UnixNano() > l.acceptUntil.Load() {
		return net.ErrClosed
	}
	return l.Listener.(deadliner).SetDeadline(now.Add(acceptInterval))
}

// readProxyProtocol returns a listener that reads the PROXY protocol if that is configured, and inner otherwise. The
// PROXY header comes before the TLS handshake, so TLS must wrap the result.
func (g *Gateway) readProxyProtocol(l *Listener, inner net.Listener) (net.Listener, error) {
	if len(l.ProxyProtocol) == 0 {
		return inner, nil
	}
	return proxyproto.NewListener(inner, proxyproto.Config{
		Trusted: l.ProxyProtocol, Timeout: g.config.HeaderTimeout, Logger: slog.New(g.clientErrors.Handler("PROXY protocol")),
		OnClient: func(balancer net.Conn, client netip.AddrPort) error { return conns.Of(balancer).SetAddr(client.Addr()) },
	})
}
