package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/demo"
	"github.com/headgate/headgate/internal/certs"
	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/service"
)

// A server is one of the small ones beside the gateway.
type server struct {
	name     string
	listener net.Listener
	http     *http.Server
	conns    *conns.Conns // nil if they are not bounded

	certificates *certs.Set // nil if it has none
	lookEvery    time.Duration
}

// listen opens a server, which serves nobody yet.
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

// bound bounds the connections of the server.
func (s *server) bound(to *conns.Conns) {
	s.conns, s.http.ConnState = to, service.SetConnState
}

// secure has the server speak TLS.
func (s *server) secure(set *certs.Set, lookEvery time.Duration, minVersion uint16) {
	s.certificates, s.lookEvery = set, lookEvery
	s.http.TLSConfig = set.Config(minVersion)
}

// reload looks at the files of certificates again.
func (s *server) reload(log *slog.Logger) {
	if s.certificates != nil {
		_ = s.certificates.Reload(log) // it has told the log
	}
}

// url returns a URL of the server, or its address if that is a Unix socket.
func (s *server) url() string {
	if s.listener.Addr().Network() == "unix" {
		return s.addr()
	}
	if s.certificates != nil {
		return "https://" + reachable(s.addr())
	}
	return "http://" + reachable(s.addr())
}

// openDemo opens the service that is protected when there is no other, for this host alone.
func openDemo(log *slog.Logger) (*server, error) {
	s, err := listen("demo", "127.0.0.1:0", &demo.Upstream{}, log)
	if err != nil {
		return nil, fmt.Errorf("demonstration service: %w", err)
	}
	// It serves a gateway, which keeps its connections.
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

// shutdown lets requests finish, for a while.
func (s *server) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.close()
	}
}

// close ends the server. What its listener or connections have to say about that is of no use to anybody.
func (s *server) close() {
	_ = s.http.Close()
	_ = s.listener.Close()
}
