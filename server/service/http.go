package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate/server/internal/conns"
)

// Defaults of HTTPConfig.
const (
	DefaultMaxConns = 20_000

	defaultWriteTimeout = 10 * time.Second
)

// HTTPConfig configures an HTTPServer. Only Handler is required.
type HTTPConfig struct {
	// Handler serves requests.
	Handler http.Handler
	// TLS has the certificates. Default nil: no TLS.
	TLS *TLS
	// MaxConns bounds open connections; more are closed at once. Default DefaultMaxConns.
	MaxConns int
	// Conns bounds the connections of one address and the file descriptors. Default: a quarter of MaxConns per address,
	// but at least 64, and no bound on descriptors.
	Conns ConnLimits
	// HeaderTimeout bounds the time for a request's header. Default 5s.
	HeaderTimeout time.Duration
	// ReadTimeout bounds the time for a whole request. Default 10s.
	ReadTimeout time.Duration
	// WriteTimeout bounds the time from the end of the request's header to the end of the response. Hold extends it.
	// Default 10s.
	WriteTimeout time.Duration
	// IdleTimeout bounds the time between requests of a connection. Default 2m.
	IdleTimeout time.Duration
	// MaxHeader bounds the header of a request, in bytes. Default 64 KiB.
	MaxHeader int
	// Logger logs broken connections at debug level, and certificate loads. Default slog.Default().
	Logger *slog.Logger
}

var errNoHandler = errors.New("service: no Handler")

func (c *HTTPConfig) validate() error {
	if c.Handler == nil {
		return errNoHandler
	}
	options := CheckOptions("service: ")
	options.Duration("HeaderTimeout", &c.HeaderTimeout, 5*time.Second, 1)
	options.Duration("ReadTimeout", &c.ReadTimeout, 10*time.Second, 1)
	options.Duration("WriteTimeout", &c.WriteTimeout, defaultWriteTimeout, 1)
	options.Duration("IdleTimeout", &c.IdleTimeout, 2*time.Minute, 1)
	options.Int("MaxConns", &c.MaxConns, DefaultMaxConns, 1, MaxInt)
	options.Int("MaxHeader", &c.MaxHeader, 64<<10, 1<<10, MaxInt)
	if err := options.Err(); err != nil {
		return err
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return nil
}

// An HTTPServer is an http.Server that no client can keep busy: the number of connections and the size and duration of
// requests are bounded. It speaks HTTP/1.1, and HTTP/2 with clients that start with it or negotiate it over TLS.
type HTTPServer struct {
	http  *http.Server
	conns *Conns
	certs *Certificates // nil without TLS

	stopping context.Context //nolint:containedctx // it ends when Shutdown is called
	stop     context.CancelFunc
	running  sync.WaitGroup // the certificate watcher
}

// NewHTTP returns a server. The error says what is wrong with the HTTPConfig.
func NewHTTP(c HTTPConfig) (*HTTPServer, error) {
	if err := c.validate(); err != nil {
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
		ConnState:         conns.SetState,
		ConnContext:       withProven,
		ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
	if set != nil {
		s.http.TLSConfig = set.Config("h2", "http/1.1")
	}
	return s, nil
}

// Serve serves connections until Shutdown, and then returns nil.
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

// Reload reads the certificate files now instead of at the next check.
func (s *HTTPServer) Reload() error { return s.certs.Reload() }

// Shutdown refuses new connections and lets requests finish. If ctx ends earlier, Shutdown aborts them and returns the
// error of ctx.
func (s *HTTPServer) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close() // the connections are closed anyway
	}
	s.running.Wait()
	return err
}

// Conns returns the connections of the server.
func (s *HTTPServer) Conns() *Conns { return s.conns }

// Conns are the connections of a server, whose number is bounded.
type Conns = conns.Conns

// ConnLimits bound the connections of a server beyond their total. The zero value has the defaults.
type ConnLimits struct {
	// PerAddress bounds the connections of one address; an IPv6 address counts as its /64 network. Default a quarter of
	// all, but at least 64; negative for no bound.
	PerAddress int
	// Exempt, if set, reports whether an address has no bound, for example a proxy with many clients.
	Exempt func(netip.Addr) bool
	// Descriptors are the file descriptors that connections may use, shared by the whole program. Default no bound.
	Descriptors conns.Share
}

// New returns the connections of a listener, at most maxConns of them. refusal is sent to refused connections.
func (l ConnLimits) New(listener string, maxConns int, refusal string, log *slog.Logger) *Conns {
	return conns.New(conns.Options{
		Name: listener, Max: maxConns, PerAddress: l.PerAddress, Exempt: l.Exempt,
		Descriptors: l.Descriptors, Refusal: refusal, Logger: log,
	})
}
