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
	// TLS configures the certificates. Default nil: no TLS.
	TLS *TLS
	// MaxConns is the maximum number of open connections. Further connections are closed immediately. Default
	// DefaultMaxConns.
	MaxConns int
	// Conns limits the connections of one address and the file descriptors. By default an address may have a quarter of
	// MaxConns, but at least 64, and file descriptors are not limited.
	Conns ConnLimits
	// HeaderTimeout is the maximum time to receive the header of a request. Default 5s.
	HeaderTimeout time.Duration
	// ReadTimeout is the maximum time to receive a whole request. Default 10s.
	ReadTimeout time.Duration
	// WriteTimeout is the maximum time from the end of the request's header to the end of the response. Hold extends it.
	// Default 10s.
	WriteTimeout time.Duration
	// IdleTimeout is the maximum time between two requests of a connection. Default 2m.
	IdleTimeout time.Duration
	// MaxHeader is the maximum size of a request's header in bytes. Default 64 KiB.
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

// An HTTPServer is an http.Server with limits, so that no client can use up its resources. It limits the number of
// connections, and the size and duration of requests. It serves HTTP/1.1 and HTTP/2. Clients can negotiate HTTP/2 over
// TLS (ALPN), and use it without TLS (h2c).
type HTTPServer struct {
	http  *http.Server
	conns *Conns
	certs *Certificates // nil without TLS

	stopping context.Context //nolint:containedctx // it ends when Shutdown is called
	stop     context.CancelFunc
	watcher  sync.WaitGroup // the goroutine that watches the certificate files
}

// NewHTTP returns a server, or an error about an invalid HTTPConfig.
func NewHTTP(c HTTPConfig) (*HTTPServer, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	certs, err := c.TLS.Open(c.Logger)
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	s := &HTTPServer{conns: c.Conns.New("api", c.MaxConns, "", c.Logger), certs: certs}
	s.stopping, s.stop = context.WithCancel(context.Background())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(certs != nil)
	protocols.SetUnencryptedHTTP2(certs == nil)
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
		ConnContext:       withAuthenticated,
		ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
	}
	if certs != nil {
		s.http.TLSConfig = certs.Config("h2", "http/1.1")
	}
	return s, nil
}

// Serve serves connections until Shutdown, and then returns nil.
func (s *HTTPServer) Serve(l net.Listener) error {
	serve := s.http.Serve
	if s.certs != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
		s.watcher.Go(func() { s.certs.Watch(s.stopping) })
	}
	if err := serve(s.conns.Listener(l)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Reload reads the certificate files now instead of at the next regular check. Without TLS it does nothing.
func (s *HTTPServer) Reload() error { return s.certs.Reload() }

// Shutdown refuses new connections and waits for the requests in progress. If ctx ends first, Shutdown aborts these
// requests and returns the error of ctx.
func (s *HTTPServer) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close() // even after an error, all connections are closed
	}
	s.watcher.Wait()
	return err
}

// Conns returns the server's connections, for example to count them.
func (s *HTTPServer) Conns() *Conns { return s.conns }

// Conns is the limited set of open connections of a server.
type Conns = conns.Conns

// ConnLimits limits the connections of a server, in addition to the limit on their total number. The zero value has the
// defaults.
type ConnLimits struct {
	// PerAddress is the maximum number of connections of one address. An IPv6 address counts as its /64 network. A
	// negative value means no limit. Default a quarter of the total, but at least 64.
	PerAddress int
	// Exempt, if set, reports whether PerAddress does not apply to an address, for example to a proxy with many clients.
	Exempt func(netip.Addr) bool
	// Descriptors limits the file descriptors of connections. All servers of the program share this limit. Default no
	// limit.
	Descriptors conns.Share
}

// New returns an empty Conns for at most maxConns connections. listener is the name of the listener in the log. If
// refusal is not empty, this text is sent to refused connections before they are closed.
func (l ConnLimits) New(listener string, maxConns int, refusal string, log *slog.Logger) *Conns {
	return conns.New(conns.Options{
		Name: listener, Max: maxConns, PerAddress: l.PerAddress, Exempt: l.Exempt,
		Descriptors: l.Descriptors, Refusal: refusal, Logger: log,
	})
}
