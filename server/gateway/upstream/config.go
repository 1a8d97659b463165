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
	DefaultDialTimeout     = 5 * time.Second
	DefaultHeaderTimeout   = 30 * time.Second
	DefaultExpectTimeout   = time.Second
	DefaultStallTimeout    = 5 * time.Minute
	DefaultIdleTimeout     = time.Minute
	DefaultWaitTimeout     = 5 * time.Second
	DefaultMaxConns        = 1024
	DefaultMaxWaiting      = 1024
	DefaultMaxHeaderBytes  = 256 << 10
	DefaultMaxBufferedBody = 16 << 10
)

// Config configures a Pool. Only Address is required.
type Config struct {
	// Address is the address of the upstream: host:port, or unix:/path/to/socket.
	Address string
	// TLS configures TLS; nil for connections without TLS. ServerName defaults to the host of Address. The pool
	// negotiates only HTTP/1.1 (ALPN).
	TLS *tls.Config
	// Dial connects to the upstream. Default: DialContext of a zero net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// DialTimeout is the maximum time to connect, including the TLS handshake. Default DefaultDialTimeout.
	DialTimeout time.Duration
	// HeaderTimeout is the maximum wait for the head of the response once the request is sent. Default
	// DefaultHeaderTimeout. If it is negative, only the context limits the wait.
	HeaderTimeout time.Duration
	// ExpectTimeout is the maximum wait for 100 Continue, after which the body is sent anyway. Default
	// DefaultExpectTimeout.
	ExpectTimeout time.Duration
	// StallTimeout is the maximum time for which the upstream may pause while it sends a body, or while it receives one.
	// Default DefaultStallTimeout. If it is negative, only the context limits such a pause.
	StallTimeout time.Duration
	// IdleTimeout is the time for which an idle connection is kept. A shorter time in the upstream's Keep-Alive header
	// takes precedence. Default DefaultIdleTimeout.
	IdleTimeout time.Duration
	// WaitTimeout is the maximum wait for a connection when MaxConns are in use. Default DefaultWaitTimeout.
	WaitTimeout time.Duration

	// MaxConns is the maximum number of connections. Default DefaultMaxConns.
	MaxConns int
	// MaxWaiting is the maximum number of requests that wait for a connection; further ones are refused at once. Default
	// DefaultMaxWaiting. If it is negative, no request waits.
	MaxWaiting int
	// MaxHeaderBytes is the maximum total size of a response's head and the interim responses before it. It is also the
	// maximum size of the trailers. Default DefaultMaxHeaderBytes.
	MaxHeaderBytes int
	// MaxBufferedBody is the maximum length of a request body that is read completely before anything is sent. Such a body is
	// sent with the head in one write, and can be sent again on another connection. Default DefaultMaxBufferedBody. If it is
	// negative, no body is buffered.
	MaxBufferedBody int
}

// validate sets zero fields to their defaults, and returns an error for the first invalid field.
func (c *Config) validate() error {
	path, unix := strings.CutPrefix(c.Address, "unix:")
	host, port, _ := net.SplitHostPort(c.Address) // empty if it is invalid
	if unix && path == "" || !unix && (host == "" || port == "") {
		return fmt.Errorf("upstream: Address %q must be host:port or unix:/path", c.Address)
	}
	for _, d := range []struct {
		name                   string
		value                  *time.Duration
		defaultValue, minValue time.Duration
	}{
		{"DialTimeout", &c.DialTimeout, DefaultDialTimeout, 1},
		{"HeaderTimeout", &c.HeaderTimeout, DefaultHeaderTimeout, unlimited},
		{"ExpectTimeout", &c.ExpectTimeout, DefaultExpectTimeout, 1},
		{"StallTimeout", &c.StallTimeout, DefaultStallTimeout, unlimited},
		{"IdleTimeout", &c.IdleTimeout, DefaultIdleTimeout, 1},
		{"WaitTimeout", &c.WaitTimeout, DefaultWaitTimeout, 1},
	} {
		*d.value = cmp.Or(*d.value, d.defaultValue)
		if *d.value < d.minValue {
			return fmt.Errorf("upstream: %s %v must be positive, or 0 for %v", d.name, *d.value, d.defaultValue)
		}
	}
	for _, n := range []struct {
		name                             string
		value                            *int
		defaultValue, minValue, maxValue int
	}{
		{"MaxConns", &c.MaxConns, DefaultMaxConns, 1, math.MaxInt},
		{"MaxWaiting", &c.MaxWaiting, DefaultMaxWaiting, math.MinInt, math.MaxInt},
		{"MaxHeaderBytes", &c.MaxHeaderBytes, DefaultMaxHeaderBytes, 1 << 10, maxHeaderBytes},
		{"MaxBufferedBody", &c.MaxBufferedBody, DefaultMaxBufferedBody, math.MinInt, maxBufferedBodyLimit},
	} {
		*n.value = cmp.Or(*n.value, n.defaultValue)
		switch v := *n.value; {
		case v < n.minValue:
			return fmt.Errorf("upstream: %s %d must be at least %d, or 0 for %d", n.name, v, n.minValue, n.defaultValue)
		case v > n.maxValue:
			return fmt.Errorf("upstream: %s %d must be at most %d, or 0 for %d", n.name, v, n.maxValue, n.defaultValue)
		}
	}
	c.MaxWaiting = max(c.MaxWaiting, 0)
	return nil
}

const (
	maxHeaderBytes       = 16 << 20
	maxBufferedBodyLimit = 1 << 20

	unlimited time.Duration = math.MinInt64 // the lower bound of a timeout that may be negative
)
