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

// A listenerServer serves the connections of one listener. Package downstream serves most requests, and net/http the
// others.
type listenerServer struct {
	config       *Listener
	server       *downstream.Server
	certificates *certs.Set // nil without TLS
	bounded      *boundedListener
	listener     net.Listener // bounded, or a listener around it that reads the PROXY protocol
}

func (g *Gateway) newListenerServer(l *Listener) (*listenerServer, error) {
	ls := &listenerServer{config: l}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	errorLog := slog.NewLogLogger(g.clientErrors.Handler("HTTP server"), slog.LevelWarn)
	netHTTP := &http.Server{
		Handler:           g,
		ReadHeaderTimeout: g.config.HeaderTimeout,
		IdleTimeout:       g.config.IdleTimeout,
		// The gateway checks MaxHeader itself, so that its response is problem+json. net/http refuses only much larger
		// headers, to limit memory.
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
	ls.server = &downstream.Server{
		Handler: g, NetHTTP: netHTTP, OnlyNetHTTP: g.config.NetHTTP, ErrorLog: errorLog,
		HeaderTimeout: g.config.HeaderTimeout, IdleTimeout: g.config.IdleTimeout, WriteTimeout: g.config.WriteTimeout,
		Turns: &g.turns,
	}
	if l.TLS == nil {
		protocols.SetUnencryptedHTTP2(!l.NoHTTP2)
		return ls, nil
	}
	protocols.SetHTTP2(!l.NoHTTP2)
	var err error
	if ls.certificates, err = certs.Load(l.TLS.Certificates, ""); err != nil {
		return nil, fmt.Errorf("gateway: listener %s: %w", l.Address, err)
	}
	netHTTP.TLSConfig = &tls.Config{
		MinVersion: max(l.TLS.MinVersion, tls.VersionTLS12), GetCertificate: ls.certificates.Get,
	}
	return ls, nil
}

// open opens the listener of ls.
func (g *Gateway) open(ls *listenerServer) error {
	inner, err := conns.Listen(ls.config.Address)
	if err != nil {
		return fmt.Errorf("gateway: listen on %s: %w", ls.config.Address, err)
	}
	ls.bounded = &boundedListener{Listener: inner, conns: g.conns, balancers: ls.config.ProxyProtocol}
	if ls.listener, err = g.readProxyProtocol(ls.config, ls.bounded); err != nil {
		_ = inner.Close()
		return fmt.Errorf("gateway: listener %s: %w", ls.config.Address, err)
	}
	return nil
}

func (ls *listenerServer) serve() error { return ls.server.Serve(ls.listener) }
