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

// Defaults for what Config leaves at zero.
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

// Config are the settings of a Pool. Only Address is required.
type Config struct {
	// Address is where the upstream listens: host:port, or unix:/path/of/its/socket.
	Address string
	// TLS is how to speak TLS with it. Nil: without TLS. ServerName is the host of Address unless set, and only HTTP/1.1 is
	// offered.
	TLS *tls.Config
	// Dial connects to the upstream. Default that of a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// DialTimeout is how long it may take to connect, with TLS. Default DefaultDialTimeout.
	DialTimeout time.Duration
	// HeaderTimeout is how long the head of the response may take once the request is sent. Default DefaultHeaderTimeout;
	// below zero there is no bound but the context's.
	HeaderTimeout time.Duration
	// ExpectTimeout is how long to wait for 100 Continue before the body is sent all the same. Default DefaultExpectTimeout.
	ExpectTimeout time.Duration
	// StallTimeout is how long the upstream may stop sending its body, or stop taking ours, before it counts as hanging.
	// Default DefaultStallTimeout; below zero there is no bound but the context's.
	StallTimeout time.Duration
	// IdleTimeout is how long a connection is kept without use. Default DefaultIdleTimeout. An upstream that says a shorter
	// time in Keep-Alive is believed.
	IdleTimeout time.Duration
	// WaitTimeout is how long a request may wait for a connection when MaxConns are in use. Default DefaultWaitTimeout.
	WaitTimeout time.Duration

	// MaxConns is how many connections there may be. Default DefaultMaxConns.
	MaxConns int
	// MaxIdle is how many of them may be kept without use. Default DefaultMaxIdle, or MaxConns if that is less.
	MaxIdle int
	// MaxWaiting is how many requests may wait for a connection; more are refused at once. Default DefaultMaxWaiting; below
	// zero none may.
	MaxWaiting int
	// MaxHeaderBytes is how large the head of a response may be, together with the interim responses before it, and how
	// large its trailers. Default DefaultMaxHeaderBytes.
	MaxHeaderBytes int
	// BufferBody is up to which length a request's body is collected before anything is sent. It then goes out in one write
	// with the head, and can be sent again on another connection. Default DefaultBufferBody; below zero none is collected.
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
