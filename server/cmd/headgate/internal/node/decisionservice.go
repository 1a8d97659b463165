package node

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/hostguard"
	"github.com/headgate/headgate/server/internal/conns"
	"github.com/headgate/headgate/server/service"
	"github.com/headgate/headgate/server/service/envoyrls"
	"github.com/headgate/headgate/server/service/grpcapi"
	"github.com/headgate/headgate/server/service/httpapi"
	"github.com/headgate/headgate/server/service/resp"
	"github.com/headgate/headgate/server/telemetry"
)

// A decisionService lets other programs ask the engine for decisions, over several protocols.
type decisionService struct {
	token      *service.Token   // the token that callers must send; nil if none is required
	resetToken *service.Token   // the token with which callers may reset keys; nil if there is none
	grpc       *grpcapi.Server  // nil if gRPC is off
	envoy      *envoyrls.Server // serves Envoy's protocol over gRPC and HTTP; nil if both are off
	protocols  []*protocol      // the protocols that are on
}

// A protocol is a listener of the decision service.
type protocol struct {
	name     string
	server   protocolServer
	listener net.Listener // nil until it is opened
}

// A protocolServer is the server of one protocol.
type protocolServer interface {
	// Serve serves until Shutdown is called, and then returns nil.
	Serve(net.Listener) error
	// Shutdown stops accepting calls and waits for current calls. If ctx ends first, it aborts them.
	Shutdown(context.Context) error
	// Reload reads the certificate files again, and logs the result.
	Reload() error
}

// A connCounter is a protocolServer whose connections can be counted.
type connCounter interface{ Conns() *service.Conns }

// openDecisionService opens the listeners of the decision service.
func (n *Node) openDecisionService() error {
	d, c := &n.service, n.config
	if c.ServiceOff() {
		return nil
	}
	var err error
	if d.token, err = c.Token(); err != nil {
		return err
	}
	if d.resetToken, err = c.ResetToken(); err != nil {
		return err
	}
	if w := d.token.Warning(); w != "" {
		n.log.Warn(w, "setting", c.Origin("api-token-file"))
	}
	if c.GRPCAddr != config.Off || c.APIAddr != config.Off {
		if err := n.openEnvoy(); err != nil {
			return err
		}
	}
	for _, p := range []struct {
		name, setting, addr string
		open                func() (protocolServer, error)
	}{
		{"api", "api-addr", c.APIAddr, n.openAPI},
		{"grpc", "grpc-addr", c.GRPCAddr, n.openGRPC},
		{"resp", "resp-addr", c.RESPAddr, n.openRESP},
	} {
		if p.addr == config.Off {
			continue
		}
		proto := &protocol{name: p.name}
		if proto.server, err = p.open(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		d.protocols = append(d.protocols, proto)
		if proto.listener, err = conns.Listen(p.addr); err != nil {
			if !c.IsSet(p.setting) { // the user may not know that this listener exists
				return fmt.Errorf("%w; set another address with --%s, or off", err, p.setting)
			}
			return fmt.Errorf("%s: %w", c.Origin(p.setting), err)
		}
		if d.token == nil && !onLoopback(proto.listener.Addr()) {
			n.log.Warn("other hosts can call the decision service without a token; require one with --api-token-file",
				"listener", p.name, "address", proto.listener.Addr().String())
		}
	}
	return nil
}

// onLoopback reports whether only this host can connect to an address.
func onLoopback(addr net.Addr) bool {
	if addr.Network() == "unix" {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// redisBatchParallelism is the number of decisions of a batch that run concurrently if the store is Redis.
const redisBatchParallelism = 64

// batchParallelism returns the number of decisions of a batch that run concurrently. In memory, concurrency would not
// help.
func (n *Node) batchParallelism() int {
	if n.stores.Shared() {
		return redisBatchParallelism
	}
	return 1
}

// openGRPC creates the gRPC server, which also serves Envoy's protocol.
func (n *Node) openGRPC() (protocolServer, error) {
	settings := &n.config.Service
	c := grpcapi.Config{
		Engine: n.engine, Identifier: n.identity, Token: n.service.token, AdminToken: n.service.resetToken, Logins: n.logins,
		TLS: settings.GRPC.TLS.ServiceOptions(), CallTimeout: settings.GRPC.CallTimeout,
		MaxMessage: int(settings.MaxBody), MaxBatch: settings.MaxBatch, MaxStreams: settings.GRPC.MaxStreams,
		MaxConns: settings.MaxConns, Conns: n.connLimits(settings.MaxConnsPerAddress), Parallel: n.batchParallelism(),
		Tracer: n.tracer, Logger: n.componentLogger("service").With("listener", "grpc"),
	}
	if !settings.GRPC.NoStore {
		c.Store = n.stores.Main()
	}
	s, err := grpcapi.New(c)
	if err != nil {
		return nil, err
	}
	s.Register(n.service.envoy.Register)
	s.SetServing(envoyrls.HealthName, n.service.envoy.Healthy())
	n.service.grpc = s
	return s, nil
}

// connLimits returns the limits of a listener's connections, except for their total number.
func (n *Node) connLimits(perAddress config.CountOrOff) service.ConnLimits {
	return service.ConnLimits{PerAddress: int(perAddress), Exempt: n.identity.IsProxy, Descriptors: n.descriptors.Share}
}

// openEnvoy creates the server of Envoy's protocol, for the HTTP and gRPC listeners.
func (n *Node) openEnvoy() error {
	d := &n.service
	settings := &n.config.Service
	c := envoyrls.Config{
		Path: n.config.EnvoyConfig, Engine: n.engine, Store: n.stores.Main(), CountDenied: !settings.Envoy.NoCountDenied,
		OnFailure: settings.Envoy.OnFailure, ResponseHeaders: settings.Envoy.ResponseHeaders, Token: d.token,
		Logins:          n.logins,
		DynamicMetadata: settings.Envoy.DynamicMetadata, MergeDomains: settings.Envoy.MergeDomains,
		Limits:  envoyrls.Limits{Body: int(settings.MaxBody)},
		OnError: n.faultLogger("envoy"), Logger: n.componentLogger("service").With("protocol", "envoy"),
		OnHealth: func(healthy bool) {
			if d.grpc != nil { // otherwise openGRPC sets the state later
				d.grpc.SetServing(envoyrls.HealthName, healthy)
			}
		},
	}
	s, err := envoyrls.New(c)
	if err != nil && n.config.EnvoyConfig != "" {
		return fmt.Errorf("%s: %w", n.config.Origin("envoy-config"), err)
	}
	d.envoy = s
	return err
}

// openAPI creates the HTTP server.
func (n *Node) openAPI() (protocolServer, error) {
	envoy := service.WithHold(n.service.envoy.Handler(), rules.MaxDelay) // rules may delay a response by MaxDelay
	settings := &n.config.Service
	log := n.componentLogger("service").With("listener", "api")
	api, err := httpapi.New(httpapi.Config{
		Engine: n.engine, Identifier: n.identity, Token: n.service.token, Logins: n.logins, Fields: n.config.ResponseFields(),
		MaxBody: int(settings.MaxBody), MaxBatch: settings.MaxBatch, Parallel: n.batchParallelism(),
		OtherHandlers: map[string]http.Handler{"/json": envoy, "/healthcheck": envoy}, // they check the token themselves
		Tracer:        n.tracer, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return service.NewHTTP(service.HTTPConfig{
		Handler: hostguard.API(n.config).Guard(api), TLS: settings.API.TLS.ServiceOptions(), MaxConns: settings.MaxConns,
		Conns: n.connLimits(settings.MaxConnsPerAddress), Logger: log,
	})
}

// openRESP creates the server for Redis clients.
func (n *Node) openRESP() (protocolServer, error) {
	settings := &n.config.Service
	c := resp.Config{
		Engine: n.engine, Store: n.stores.Main(), OnFailure: settings.RESP.OnFailure,
		Token: n.service.token, AdminToken: n.service.resetToken, Logins: n.logins, TLS: settings.RESP.TLS.ServiceOptions(),
		Identity: n.identity,
		Limits: resp.Limits{
			Conns:       cmp.Or(settings.MaxConns, service.DefaultMaxConns),
			IdleTimeout: settings.RESP.IdleTimeout.Duration(), // negative if it is off
		},
		Conns:   n.connLimits(settings.MaxConnsPerAddress),
		Version: n.options.Version, Logger: n.componentLogger("service").With("listener", "resp"),
	}
	if memory := n.stores.Memory; !n.stores.Shared() {
		c.Bind = func(l headgate.Limit) (resp.Bound, error) { return memory.Prepare(l, headgate.Open) }
	}
	return resp.New(c)
}

// serveDecisionService starts the servers. If a server fails, it calls stop.
func (n *Node) serveDecisionService(ctx context.Context, tasks *sync.WaitGroup, stop context.CancelCauseFunc) {
	for _, p := range n.service.protocols {
		tasks.Go(func() {
			if err := p.server.Serve(p.listener); err != nil {
				stop(fmt.Errorf("%s: %w", p.name, err))
			}
		})
	}
	if e := n.service.envoy; e != nil && n.config.EnvoyConfig != "" {
		tasks.Go(func() {
			if err := e.Watch(ctx); err != nil {
				n.log.Error("limits for Envoy not watched", "err", err.Error())
			}
		})
	}
}

// drainDecisionService makes health checks fail, waits for the drain delay, and then stops the servers after current
// calls. During the delay, new calls are still accepted, because load balancers have not noticed the failed checks yet.
func (n *Node) drainDecisionService() {
	d := &n.service
	if len(d.protocols) == 0 {
		return
	}
	if d.envoy != nil {
		d.envoy.Drain()
	}
	if d.grpc != nil {
		d.grpc.SetServing("", false)
	}
	delay, timeout := n.config.Drain()
	time.Sleep(delay) // need not be interruptible, because a second signal ends the program
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var tasks sync.WaitGroup
	for _, p := range d.protocols {
		tasks.Go(func() {
			if err := p.server.Shutdown(ctx); err != nil {
				n.log.Warn("drain incomplete", "listener", p.name, "err", err.Error())
			}
		})
	}
	tasks.Wait()
}

// closeDecisionService closes all servers and listeners, even if they were never started.
func (n *Node) closeDecisionService() {
	for _, p := range n.service.protocols {
		abort(p.server)
		if p.listener != nil {
			_ = p.listener.Close() // a server that has served has closed it already
		}
	}
}

// abort closes a server without waiting for its calls.
func abort(s protocolServer) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(ended) // returns the error of the ended context
}

// reloadDecisionService reads the certificates and the limits for Envoy again.
func (n *Node) reloadDecisionService() {
	for _, p := range n.service.protocols {
		_ = p.server.Reload() // it logs its error
	}
	if n.service.envoy != nil {
		_ = n.service.envoy.Reload() // it logs its error
	}
}

// addSources adds the statistics of the decision service to sources.
func (d *decisionService) addSources(sources *telemetry.Sources) {
	if len(d.protocols) > 0 {
		sources.Listeners = func() []telemetry.Listener {
			var list []telemetry.Listener
			for _, p := range d.protocols {
				list = append(list, p.stats())
			}
			return list
		}
	}
	for _, p := range d.protocols {
		if s, ok := p.server.(*resp.Server); ok {
			sources.RESP = s.Stats
		}
	}
	if d.envoy != nil {
		sources.Envoy = d.envoy.Stats
	}
}

// stats returns the connection statistics of a listener.
func (p *protocol) stats() telemetry.Listener {
	result := telemetry.Listener{Name: p.name}
	switch s := p.server.(type) {
	case connCounter:
		c := s.Conns()
		counts := c.Counts()
		result.Open, result.Accepted, result.Refused, result.Reclaimed = c.Open(), counts.Accepted, counts.Refused,
			counts.Reclaimed
	case *resp.Server:
		f := s.Stats()
		result.Open, result.Accepted, result.Refused, result.Reclaimed = f.Open, f.Accepted, f.Refused, f.Reclaimed
	}
	return result
}
