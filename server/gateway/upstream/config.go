package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
	DefaultMaxIdle        = 256
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
	// MaxIdle is the maximum number of idle connections. Default DefaultMaxIdle, or MaxConns if that is less.
	MaxIdle int
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

func (c *Config) validate() error {
	if c.Address == "" {
		return errors.New("upstream: no Address: want host:port, or unix:/path")
	}
	if path, unix := strings.CutPrefix(c.Address, "unix:"); unix {
		if path == "" {
			return fmt.Errorf("upstream: Address %q: want host:port, or unix:/path", c.Address)
		}
	} else if host, port, err := net.SplitHostPort(c.Address); err != nil || host == "" || port == "" {
		return fmt.Errorf("upstream: Address %q: want host:port, or unix:/path", c.Address)
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		preset   time.Duration
		mayBeOff bool
	}{
		{"DialTimeout", &c.DialTimeout, DefaultDialTimeout, false},
		{"HeaderTimeout", &c.HeaderTimeout, DefaultHeaderTimeout, true},
		{"ExpectTimeout", &c.ExpectTimeout, DefaultExpectTimeout, false},
		{"StallTimeout", &c.StallTimeout, DefaultStallTimeout, true},
		{"IdleTimeout", &c.IdleTimeout, DefaultIdleTimeout, false},
		{"WaitTimeout", &c.WaitTimeout, DefaultWaitTimeout, false},
	} {
		if *d.value == 0 {
			*d.value = d.preset
		}
		if *d.value < 0 && !d.mayBeOff {
			return fmt.Errorf("upstream: %s %v: want more than 0, or 0 for %v", d.name, *d.value, d.preset)
		}
	}
	for _, n := range []struct {
		name     string
		value    *int
		preset   int
		least    int
		mayBeOff bool
	}{
		{"MaxConns", &c.MaxConns, DefaultMaxConns, 1, false},
		{"MaxIdle", &c.MaxIdle, DefaultMaxIdle, 1, false},
		{"MaxWaiting", &c.MaxWaiting, DefaultMaxWaiting, 1, true},
		{"MaxHeaderBytes", &c.MaxHeaderBytes, DefaultMaxHeaderBytes, 1 << 10, false},
		{"BufferBody", &c.BufferBody, DefaultBufferBody, 1, true},
	} {
		if *n.value == 0 {
			*n.value = n.preset
		}
		if *n.value < n.least && !(n.mayBeOff && *n.value < 0) {
			return fmt.Errorf("upstream: %s %d: want at least %d, or 0 for %d", n.name, *n.value, n.least, n.preset)
		}
	}
	if c.MaxHeaderBytes > maxHeaderBytes {
		return fmt.Errorf("upstream: MaxHeaderBytes %d: want at most %d", c.MaxHeaderBytes, maxHeaderBytes)
	}
	if c.BufferBody > maxBufferBody {
		return fmt.Errorf("upstream: BufferBody %d: want at most %d", c.BufferBody, maxBufferBody)
	}
	c.MaxIdle = min(c.MaxIdle, c.MaxConns)
	c.MaxWaiting = max(c.MaxWaiting, 0)
	return nil
}

const (
	maxHeaderBytes = 16 << 20
	maxBufferBody  = 1 << 20
)
