package gateway

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/identity/proxyproto"
	"github.com/headgate/headgate/internal/conns"
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
	switch network, address := conns.Split(l.Address); {
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

// A boundedListener closes connections that are too many.
type boundedListener struct {
	net.Listener
	conns *conns.Conns
	// proxies are load balancers. How many connections their clients have is known when the PROXY header was read.
	proxies []netip.Prefix
	end     atomic.Int64 // when to stop at the latest, once that is known: nanoseconds since 1970
	vain    int          // how often in a row nobody was there, after that
}

func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && l.end.Load() != 0 {
				if err = l.tryAgain(); err == nil {
					continue
				}
			}
			return nil, err
		}
		l.vain = 0
		if admitted := l.conns.Admit(conn, l.isBalancer(conn.RemoteAddr())); admitted != nil {
			return admitted, nil
		}
	}
}

func (l *boundedListener) isBalancer(peer net.Addr) bool {
	if len(l.proxies) == 0 {
		return false
	}
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := tcp.AddrPort().Addr().Unmap()
	return slices.ContainsFunc(l.proxies, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// How a listener ends: when nobody has come for quietTime, three times in a row, since on a busy machine a while may pass
// unused; and in any case after acceptTime.
const (
	quietTime  = 25 * time.Millisecond
	acceptTime = 500 * time.Millisecond
)

type deadliner interface{ SetDeadline(time.Time) error }

// stopSoon takes connections that are there already, and then no more.
func (l *boundedListener) stopSoon() error {
	d, ok := l.Listener.(deadliner)
	if !ok {
		return l.Close()
	}
	now := time.Now()
	l.end.Store(now.Add(acceptTime).UnixNano())
	return d.SetDeadline(now.Add(quietTime))
}

// tryAgain lets Accept wait once more, or says that it is over.
func (l *boundedListener) tryAgain() error {
	now := time.Now()
	if l.vain++; l.vain > 2 || now.UnixNano() > l.end.Load() {
		return net.ErrClosed
	}
	return l.Listener.(deadliner).SetDeadline(now.Add(quietTime))
}

// readProxies puts the PROXY protocol around a listener, if it is configured. TLS comes around that: the header of the one
// comes before the handshake of the other.
func (g *Gateway) readProxies(l *Listener, inner net.Listener) (net.Listener, error) {
	if len(l.ProxyProtocol) == 0 {
		return inner, nil
	}
	return proxyproto.NewListener(inner, proxyproto.Config{
		Trusted: l.ProxyProtocol, Timeout: g.config.HeaderTimeout, Logger: g.noise.log("PROXY protocol"),
		OnClient: func(balancer net.Conn, client netip.AddrPort) error { return conns.Of(balancer).SetAddr(client.Addr()) },
	})
}
