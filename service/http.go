package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/conns"
)

// What an HTTPConfig holds unless told otherwise.
const (
	DefaultMaxConns      = 20_000
	DefaultHeaderTimeout = 5 * time.Second
	DefaultReadTimeout   = 10 * time.Second
	DefaultWriteTimeout  = 10 * time.Second
	DefaultIdleTimeout   = 2 * time.Minute
	DefaultMaxHeader     = 64 << 10
)

// HTTPConfig is what an HTTPServer is made of. Only Handler must be given.
type HTTPConfig struct {
	// Handler answers.
	Handler http.Handler
	// TLS has the certificates. Default nil: no TLS.
	TLS *TLS
	// MaxConns is how many connections may be open at once; more are closed as they come. Default DefaultMaxConns.
	MaxConns int
	// Conns bounds the connections of one address and the file descriptors. Default a quarter of MaxConns for an address, but
	// at least 64, and any number of descriptors.
	Conns ConnLimits
	// HeaderTimeout is how long a client may take for the header of a request. Default DefaultHeaderTimeout.
	HeaderTimeout time.Duration
	// ReadTimeout is how long a client may take for a whole request. Default DefaultReadTimeout.
	ReadTimeout time.Duration
	// WriteTimeout is how long a handler and the client together may take for an answer, from the end of the request's
	// header. A handler that holds answers extends it. Default DefaultWriteTimeout.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may wait for its next request. Default DefaultIdleTimeout.
	IdleTimeout time.Duration
	// MaxHeader is how long the header of a request may be, in bytes. Default DefaultMaxHeader.
	MaxHeader int
	// Logger hears of connections that break, at debug, and of certificates. Default slog's.
	Logger *slog.Logger
}

var errNoHandler = errors.New("service: no Handler")

func (c *HTTPConfig) fill() error {
	if c.Handler == nil {
		return errNoHandler
	}
	for _, n := range []struct {
		name  string
		value *time.Duration
		or    time.Duration
	}{
		{"HeaderTimeout", &c.HeaderTimeout, DefaultHeaderTimeout},
		{"ReadTimeout", &c.ReadTimeout, DefaultReadTimeout},
		{"WriteTimeout", &c.WriteTimeout, DefaultWriteTimeout},
		{"IdleTimeout", &c.IdleTimeout, DefaultIdleTimeout},
	} {
		if *n.value < 0 {
			return fmt.Errorf("service: %s %s: want more than 0, or 0 for the default", n.name, *n.value)
		}
		if *n.value == 0 {
			*n.value = n.or
		}
	}
	for _, n := range []struct {
		name      string
		value     *int
		or, least int
	}{{"MaxConns", &c.MaxConns, DefaultMaxConns, 1}, {"MaxHeader", &c.MaxHeader, DefaultMaxHeader, 1 << 10}} {
		if *n.value == 0 {
			*n.value = n.or
		}
		if *n.value < n.least {
			return fmt.Errorf("service: %s %d: want at least %d, or 0 for the default", n.name, *n.value, n.least)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return nil
}

// An HTTPServer is an http.Server that no client can keep busy: what each of them may send, how long that may take and how
// many there may be is bounded. It speaks HTTP/1.1, and HTTP/2 with clients that
// begin with it or, over TLS, ask for it.
type HTTPServer struct {
	http  *http.Server
	conns *Conns
	certs *Certificates // nil without TLS

	stopping context.Context //nolint:containedctx // it ends when Shutdown is called
	stop     context.CancelFunc
	running  sync.WaitGroup // who watches certificates
}

// NewHTTP returns a server. The error says what is wrong with the HTTPConfig.
func NewHTTP(c HTTPConfig) (*HTTPServer, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	set, err := c.TLS.Open(c.Logger)
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	s := &HTTPServer{conns: c.Conns.New("api", c.MaxConns, "", c.Logger), certs: set}
	s.stopping, s.stop = context.WithCancel(context.Background())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(set != nil)
	protocols.SetUnencryptedHTTP2(set == nil)
	s.http = &http.Server{
		Handler:           c.Handler,
		ReadHeaderTimeout: c.HeaderTimeout,
		ReadTimeout:       c.ReadTimeout,
		WriteTimeout:      c.WriteTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    c.MaxHeader,
		Protocols:         protocols,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 250},
		ConnState:         SetConnState,
		ConnContext:       withProven,
		ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
	if set != nil {
		s.http.TLSConfig = set.Config("h2", "http/1.1")
	}
	return s, nil
}

// SetConnState is an http.Server's ConnState for connections of Conns: it says which of them are idle.
func SetConnState(nc net.Conn, state http.ConnState) {
	conn := conns.Of(nc)
	switch {
	case conn == nil:
	case state == http.StateActive:
		conn.SetKind(conns.Busy)
	case state == http.StateIdle:
		conn.SetKind(conns.Idle)
	}
}

// Serve serves those who connect until Shutdown. It returns nil after that.
func (s *HTTPServer) Serve(l net.Listener) error {
	serve := s.http.Serve
	if s.certs != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
		s.running.Go(func() { s.certs.Watch(s.stopping) })
	}
	if err := serve(s.conns.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Reload looks at the files of certificates now, rather than when it is time to.
func (s *HTTPServer) Reload() error { return s.certs.Reload() }

// Shutdown takes no new connections and lets requests finish. When ctx ends before, it cuts them off and returns its error.
func (s *HTTPServer) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close() // what the connections have to say about that is of no use
	}
	s.running.Wait()
	return err
}

// Conns returns the connections of the server.
func (s *HTTPServer) Conns() *Conns { return s.conns }

// Conns are the connections of a server, of which there is a bounded number.
type Conns = conns.Conns

// ConnLimits bound the connections of a server, besides how many there may be. The zero value has the defaults.
type ConnLimits struct {
	// PerAddress is how many connections one address may have; one of IPv6 counts as its network of 64 bits. Default a
	// quarter of all, but at least 64; below zero any number.
	PerAddress int
	// Exempt, if any, reports whether an address may have any number, as a proxy with many clients.
	Exempt func(netip.Addr) bool
	// Descriptors are the file descriptors that connections may use. It is for the program of which the server is a part.
	// Default any number.
	Descriptors conns.Share
}

// New returns the connections of a listener with at most so many of them. farewell is sent to those that are refused.
func (l ConnLimits) New(listener string, most int, farewell string, log *slog.Logger) *Conns {
	return conns.New(conns.Options{
		Name: listener, Most: most, PerAddress: l.PerAddress, Exempt: l.Exempt, Descriptors: l.Descriptors, Farewell: farewell, Logger: log,
	})
}
