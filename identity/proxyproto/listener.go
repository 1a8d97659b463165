package proxyproto

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"
)

// Defaults of a Config.
const (
	DefaultTimeout   = 5 * time.Second
	DefaultMaxHeader = 4 << 10
)

// Config configures a Listener.
type Config struct {
	// Trusted are the networks of the load balancers. At least one is required, and none may contain all addresses.
	Trusted []netip.Prefix
	// Timeout is the maximum time from Accept to the end of the header. Default DefaultTimeout.
	Timeout time.Duration
	// MaxHeader is the maximum length of a header in bytes: 107 to 65551. Default DefaultMaxHeader.
	MaxHeader int
	// OnClient is called for each header with a client's address. If it returns an error, the connection is closed.
	// Default nil.
	OnClient func(balancer net.Conn, client netip.AddrPort) error
	// Logger logs invalid headers. Default slog.Default().
	Logger *slog.Logger
}

// Validate returns the first error in the Config.
func (c Config) Validate() error {
	if len(c.Trusted) == 0 {
		return fmt.Errorf("proxyproto: no Trusted networks: want those of the load balancers, such as 10.0.0.0/8")
	}
	for _, p := range c.Trusted {
		switch {
		case !p.IsValid() || p.Addr().Is4In6():
			return fmt.Errorf("proxyproto: Trusted network %v: want one of IPv4 or IPv6, such as 10.0.0.0/8", p)
		case p != p.Masked():
			return fmt.Errorf("proxyproto: Trusted network %v has bits beyond its prefix: want %v", p, p.Masked())
		case p.Bits() == 0:
			return fmt.Errorf("proxyproto: Trusted network %v contains all addresses, so any client could choose its own: "+
				"want the networks of the load balancers", p)
		}
	}
	if c.Timeout < 0 {
		return fmt.Errorf("proxyproto: Timeout %v: want more than 0, or 0 for %v", c.Timeout, DefaultTimeout)
	}
	if c.MaxHeader != 0 && (c.MaxHeader < maxLine || c.MaxHeader > fixedLength2+0xffff) {
		return fmt.Errorf("proxyproto: MaxHeader %d: want %d to %d, or 0 for %d",
			c.MaxHeader, maxLine, fixedLength2+0xffff, DefaultMaxHeader)
	}
	return nil
}

// A Listener accepts connections. On connections from load balancers, it reads the PROXY header.
type Listener struct {
	net.Listener
	config Config
}

var _ net.Listener = (*Listener)(nil)

// NewListener returns a Listener for the connections of inner. It returns the error of Config.Validate.
func NewListener(inner net.Listener, config Config) (*Listener, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Timeout = cmp.Or(config.Timeout, DefaultTimeout)
	config.MaxHeader = cmp.Or(config.MaxHeader, DefaultMaxHeader)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	return &Listener{Listener: inner, config: config}, nil
}

// Accept returns the next connection, as a *Conn if it comes from a load balancer. It does not wait for the header.
func (l *Listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil || !l.trusts(inner.RemoteAddr()) {
		return inner, err
	}
	limit := time.Now().Add(l.config.Timeout) //nolint:forbidigo // deadlines of connections go by the system's clock
	if err := inner.SetReadDeadline(limit); err != nil {
		l.config.Logger.Warn("cannot set the deadline of the PROXY header", "peer", inner.RemoteAddr(), "err", err)
		// Reading the header will fail, too, and close the connection.
	}
	return &Conn{Conn: inner, config: &l.config, headerDeadline: limit}, nil
}

// trusts reports whether the peer is a load balancer.
func (l *Listener) trusts(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := tcp.AddrPort().Addr().WithZone("").Unmap()
	return slices.ContainsFunc(l.config.Trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}
