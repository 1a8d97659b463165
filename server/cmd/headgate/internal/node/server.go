package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/headgate/headgate/server/cmd/headgate/internal/demo"
	"github.com/headgate/headgate/server/internal/certs"
	"github.com/headgate/headgate/server/internal/conns"
)

// A server is an HTTP server of this process: the admin listener or the demo upstream.
type server struct {
	name     string
	listener net.Listener
	http     *http.Server
	conns    *conns.Conns // limits connections; nil without a limit

	certificates *certs.Set    // nil without TLS
	checkEvery   time.Duration // interval at which the certificate files are checked for changes
}

// listen creates a server and opens its listener. It does not accept connections yet.
func listen(name, addr string, handler http.Handler, log *slog.Logger) (*server, error) {
	l, err := conns.Listen(addr)
	if err != nil {
		return nil, err
	}
	return &server{name: name, listener: l, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    128 << 10,
		ErrorLog:          slog.NewLogLogger(log.With("server", name).Handler(), slog.LevelDebug),
	}}, nil
}

// limitConns limits the connections of the server.
func (s *server) limitConns(limits *conns.Conns) {
	s.conns, s.http.ConnState = limits, conns.SetState
}

// useTLS makes the server use TLS. Its certificate files are checked for changes every checkEvery.
func (s *server) useTLS(set *certs.Set, checkEvery time.Duration, minVersion uint16) {
	s.certificates, s.checkEvery = set, checkEvery
	s.http.TLSConfig = set.Config(minVersion)
}

// reload reads the certificates again.
func (s *server) reload(log *slog.Logger) {
	if s.certificates != nil {
		_ = s.certificates.Reload(log) // it logs its error
	}
}

// url returns a URL of the server, or its address if that is a Unix socket.
func (s *server) url() string {
	if s.listener.Addr().Network() == "unix" {
		return s.addr()
	}
	if s.certificates != nil {
		return "https://" + localAddress(s.addr())
	}
	return "http://" + localAddress(s.addr())
}

// openDemo opens the built-in upstream. Only this host can reach it.
func openDemo(log *slog.Logger) (*server, error) {
	s, err := listen("demo", "127.0.0.1:0", &demo.Upstream{}, log)
	if err != nil {
		return nil, fmt.Errorf("demo upstream: %w", err)
	}
	// Its only client is the gateway, which reuses connections.
	s.http.ReadTimeout, s.http.WriteTimeout, s.http.IdleTimeout = 0, 0, 5*time.Minute
	return s, nil
}

func (s *server) addr() string { return conns.Join(s.listener.Addr()) }

// serve serves until the server is shut down or closed.
func (s *server) serve() error {
	l := s.listener
	if s.conns != nil {
		l = s.conns.Listener(l)
	}
	serve := func() error { return s.http.Serve(l) }
	if s.certificates != nil {
		serve = func() error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// shutdown waits up to 2 s until current requests have finished, then closes the server.
func (s *server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.close()
	}
}

// close closes the server and its connections immediately, and ignores errors.
func (s *server) close() {
	_ = s.http.Close()
	_ = s.listener.Close()
}
