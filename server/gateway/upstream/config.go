package upstream

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net"
	"strings"
	"time"
)

// Defaults of a Config.
const (
	DefaultDialTimeout    = 5 * time.Second
	DefaultHeaderTimeout  = 30 * time.Second
	DefaultExpectTimeout  = time.Second
	DefaultStallTimeout   = 5 * time.Minute
	DefaultIdleTimeout    = time.Minute
	DefaultWaitTimeout    = 5 * time.Second
	DefaultMaxConns       = 1024
	DefaultMaxWaiting     = 1024
	DefaultMaxHeaderBytes = 256 << 10
	DefaultBufferBody     = 16 << 10
)

// Config configures a Pool. Only Address is required.
type Config struct {
	// Address is that of the upstream: host:port, or unix:/path/of/its/socket.
	Address string
	// TLS configures TLS. Nil: no TLS. The default of ServerName is the host of Address, and only HTTP/1.1 is offered.
	TLS *tls.Config
	// Dial connects to the upstream. Default a net.Dialer's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// DialTimeout bounds connecting, including the TLS handshake. Default DefaultDialTimeout.
	DialTimeout time.Duration
	// HeaderTimeout bounds the wait for the head of the response once the request is sent. Default DefaultHeaderTimeout;
	// negative for no bound but the context's.
	HeaderTimeout time.Duration
	// ExpectTimeout bounds the wait for 100 Continue; then the body is sent without it. Default DefaultExpectTimeout.
	ExpectTimeout time.Duration
	// StallTimeout bounds how long the upstream may stop sending its body, or accepting that of the request. Default
	// DefaultStallTimeout; negative for no bound but the context's.
	StallTimeout time.Duration
	// IdleTimeout is how long an idle connection is kept. A shorter time in the upstream's Keep-Alive header takes
	// precedence. Default DefaultIdleTimeout.
	IdleTimeout time.Duration
	// WaitTimeout bounds the wait for a connection when MaxConns are in use. Default DefaultWaitTimeout.
	WaitTimeout time.Duration

	// MaxConns is the maximum number of connections. Default DefaultMaxConns.
	MaxConns int
	// MaxWaiting is the maximum number of requests that wait for a connection; more are refused at once. Default
	// DefaultMaxWaiting; negative for none.
	MaxWaiting int
	// MaxHeaderBytes is the maximum size of a response's head together with its interim responses, and of its trailers.
	// Default DefaultMaxHeaderBytes.
	MaxHeaderBytes int
	// BufferBody is the maximum length of a request's body that is read before anything is sent. It is then sent with the
	// head in one write, and can be sent again on another connection. Default DefaultBufferBody; negative for none.
	BufferBody int
}

// validate sets zero fields to their defaults, and returns the first error.
func (c *Config) validate() error {
	path, unix := strings.CutPrefix(c.Address, "unix:")
	host, port, _ := net.SplitHostPort(c.Address) // empty if it is invalid
	if unix && path == "" || !unix && (host == "" || port == "") {
		return fmt.Errorf("upstream: Address %q: want host:port, or unix:/path", c.Address)
	}
	for _, d := range []struct {
		name            string
		value           *time.Duration
		standard, least time.Duration
	}{
		{"DialTimeout", &c.DialTimeout, DefaultDialTimeout, 1},
		{"HeaderTimeout", &c.HeaderTimeout, DefaultHeaderTimeout, unlimited},
		{"ExpectTimeout", &c.ExpectTimeout, DefaultExpectTimeout, 1},
		{"StallTimeout", &c.StallTimeout, DefaultStallTimeout, unlimited},
		{"IdleTimeout", &c.IdleTimeout, DefaultIdleTimeout, 1},
		{"WaitTimeout", &c.WaitTimeout, DefaultWaitTimeout, 1},
	} {
		if *d.value = cmp.Or(*d.value, d.standard); *d.value < d.least {
			return fmt.Errorf("upstream: %s %v: want more than 0, or 0 for %v", d.name, *d.value, d.standard)
		}
	}
	for _, n := range []struct {
		name                  string
		value                 *int
		standard, least, most int
	}{
		{"MaxConns", &c.MaxConns, DefaultMaxConns, 1, math.MaxInt},
		{"MaxWaiting", &c.MaxWaiting, DefaultMaxWaiting, math.MinInt, math.MaxInt},
		{"MaxHeaderBytes", &c.MaxHeaderBytes, DefaultMaxHeaderBytes, 1 << 10, maxHeaderBytes},
		{"BufferBody", &c.BufferBody, DefaultBufferBody, math.MinInt, maxBufferBody},
	} {
		switch *n.value = cmp.Or(*n.value, n.standard); {
		case *n.value < n.least:
			return fmt.Errorf("upstream: %s %d: want at least %d, or 0 for %d", n.name, *n.value, n.least, n.standard)
		case *n.value > n.most:
			return fmt.Errorf("upstream: %s %d: want at most %d, or 0 for %d", n.name, *n.value, n.most, n.standard)
		}
	}
	c.MaxWaiting = max(c.MaxWaiting, 0)
	return nil
}

const (
	maxHeaderBytes = 16 << 20
	maxBufferBody  = 1 << 20

	unlimited time.Duration = math.MinInt64 // the lower bound of a timeout that may be negative
)
