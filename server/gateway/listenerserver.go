package gateway

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/headgate/headgate/server/gateway/downstream"
	"github.com/headgate/headgate/server/internal/certs"
	"github.com/headgate/headgate/server/internal/conns"
)

// A listenerServer serves one listener: with package downstream most requests, and with net/http the others.
type listenerServer struct {
	config       *Listener
	server       *downstream.Server
	certificates *certs.Set // nil without TLS
	bounded      *boundedListener
	listener     net.Listener // bounded, or the PROXY protocol around it
}

func (g *Gateway) newListenerServer(l *Listener) (*listenerServer, error) {
	f := &listenerServer{config: l}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	errorLog := slog.NewLogLogger(g.clientErrors.Handler("HTTP server"), slog.LevelWarn)
	netHTTP := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: g.config.HeaderTimeout,
		IdleTimeout:       g.config.IdleTimeout,
		// net/http refuses larger headers in plain text. This bounds memory; the gateway checks MaxHeader itself.
		MaxHeaderBytes:               g.config.MaxHeader + max(g.config.MaxHeader, 16<<10),
		DisableGeneralOptionsHandler: true, // limits apply to OPTIONS too
		ErrorLog:                     errorLog,
		ConnState:                    conns.SetState,
		Protocols:                    protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: g.config.MaxStreams,
			SendPingTimeout:      g.config.IdleTimeout,
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     g.config.WriteTimeout,
		},
	}
	f.server = &downstream.Server{
		Handler: g, NetHTTP: netHTTP, OnlyNetHTTP: g.config.NetHTTP, ErrorLog: errorLog,
		HeaderTimeout: g.config.HeaderTimeout, IdleTimeout: g.config.IdleTimeout, WriteTimeout: g.config.WriteTimeout,
		Turns: &g.turns,
	}
	if l.TLS == nil {
		protocols.SetUnencryptedHTTP2(!l.NoHTTP2)
		return f, nil
	}
	protocols.SetHTTP2(!l.NoHTTP2)
	var err error
	if f.certificates, err = certs.Load(l.TLS.Certificates, ""); err != nil {
		return nil, fmt.Errorf("gateway: listener %s: %w", l.Address, err)
	}
	netHTTP.TLSConfig = &tls.Config{
		MinVersion: max(l.TLS.MinVersion, tls.VersionTLS12), GetCertificate: f.certificates.Get,
	}
	return f, nil
}

// open opens the listener of f.
func (g *Gateway) open(f *listenerServer) error {
	inner, err := conns.Listen(f.config.Address)
	if err != nil {
		return fmt.Errorf("gateway: listen on %s: %w", f.config.Address, err)
	}
	f.bounded = &boundedListener{Listener: inner, conns: g.conns, balancers: f.config.ProxyProtocol}
	if f.listener, err = g.readProxyProtocol(f.config, f.bounded); err != nil {
		_ = inner.Close()
		return fmt.Errorf("gateway: listener %s: %w", f.config.Address, err)
	}
	return nil
}

func (f *listenerServer) serve() error { return f.server.Serve(f.listener) }
