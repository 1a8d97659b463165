package node

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/service"
	"github.com/headgate/headgate/service/envoyrls"
	"github.com/headgate/headgate/service/grpcapi"
	"github.com/headgate/headgate/service/httpapi"
	"github.com/headgate/headgate/service/resp"
	"github.com/headgate/headgate/telemetry"
)

// A decisionService is the protocols by which others ask the engine.
type decisionService struct {
	token     *service.Token   // nil if none is asked for
	admin     *service.Token   // of the administrator, who may reset keys; nil if there is none
	grpc      *grpcapi.Server  // nil if it is off
	envoy     *envoyrls.Server // nil if both of the listeners that it answers on are off
	protocols []*protocol      // those that are not off
}

// A protocol is a listener of the decision service.
type protocol struct {
	name     string
	server   protocolServer
	listener net.Listener // nil before it is opened
}

// A protocolServer is what the servers of protocols have in common.
type protocolServer interface {
	// Serve serves until Shutdown, and then returns nil.
	Serve(net.Listener) error
	// Shutdown lets calls finish. When ctx ends before, it cuts them off.
	Shutdown(context.Context) error
	// Reload looks at the files of certificates, and tells the log.
	Reload() error
}

// openService opens the listeners of the decision service.
func (n *Node) openService() error {
	d, c := &n.service, n.config
	if c.ServiceOff() {
		return nil
	}
	var err error
	if d.token, err = c.Token(); err != nil {
		return err
	}
	if d.admin, err = c.ResetToken(); err != nil {
		return err
	}
	if w := d.token.Warning(); w != "" {
		n.log.Warn(w, "setting", c.Where("api-token-file"))
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
		made := &protocol{name: p.name}
		if made.server, err = p.open(); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		d.protocols = append(d.protocols, made)
		if made.listener, err = conns.Listen(p.addr); err != nil {
			if !c.Given(p.setting) { // who has not asked for it may not know it
				return fmt.Errorf("%w; give another address with --%s, or off", err, p.setting)
			}
			return fmt.Errorf("%s: %w", c.Where(p.setting), err)
		}
		if d.token == nil && !onLoopback(made.listener.Addr()) {
			n.log.Warn("others can ask the decision service, which asks for no token; give one with --api-token-file",
				"listener", p.name, "address", made.listener.Addr().String())
		}
	}
	return nil
}

// onLoopback reports whether only this host reaches an address.
func onLoopback(addr net.Addr) bool {
	if addr.Network() == "unix" {
		return true
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// inParallel is how many decisions of one batch are asked of a store behind a network at once.
const inParallel = 64

// parallel returns how many decisions of one batch are asked for at once.
func (n *Node) parallel() int {
	if n.stores.shared() {
		return inParallel
	}
	return 1
}

// openGRPC makes the server of gRPC, on which Envoys ask too.
func (n *Node) openGRPC() (protocolServer, error) {
	settings := &n.config.Service
	c := grpcapi.Config{
		Engine: n.engine, Identifier: n.identity, Token: n.service.token, AdminToken: n.service.admin, Logins: n.logins,
		TLS: settings.GRPC.TLS.Settings(), CallTimeout: settings.GRPC.CallTimeout,
		MaxMessage: int(settings.MaxBody), MaxBatch: settings.MaxBatch, MaxStreams: settings.GRPC.MaxStreams,
		MaxConns: settings.MaxConns, Conns: n.connLimits(settings.MaxConnsPerAddress), Parallel: n.parallel(),
		Logger: n.log.With("listener", "grpc"),
	}
	if !settings.GRPC.NoStore {
		c.Store = n.stores.main()
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

// connLimits bounds the connections of a listener, besides how many there may be.
func (n *Node) connLimits(perAddress config.Count) service.ConnLimits {
	return service.ConnLimits{PerAddress: int(perAddress), Exempt: n.identity.IsProxy, Descriptors: n.descriptors.share}
}

// openEnvoy makes what answers Envoys on the listeners of HTTP and gRPC.
func (n *Node) openEnvoy() error {
	d := &n.service
	settings := &n.config.Service
	c := envoyrls.Config{
		Path: n.config.EnvoyConfig, Engine: n.engine, Store: n.stores.main(), CountDenied: !settings.Envoy.NoCountDenied,
		OnFailure: settings.Envoy.OnFailure, ResponseHeaders: settings.Envoy.ResponseHeaders, Token: d.token, Logins: n.logins,
		DynamicMetadata: settings.Envoy.DynamicMetadata, MergeDomains: settings.Envoy.MergeDomains,
		Limits:  envoyrls.Limits{Body: int64(settings.MaxBody)},
		OnError: n.faults("envoy"), Logger: n.log.With("protocol", "envoy"),
		OnHealth: func(healthy bool) {
			if d.grpc != nil { // else it will be told when it is made
				d.grpc.SetServing(envoyrls.HealthName, healthy)
			}
		},
	}
	s, err := envoyrls.New(c)
	if err != nil && n.config.EnvoyConfig != "" {
		return fmt.Errorf("%s: %w", n.config.Where("envoy-config"), err)
	}
	d.envoy = s
	return err
}

// openAPI makes the server of HTTP.
func (n *Node) openAPI() (protocolServer, error) {
	envoy := service.Holds(n.service.envoy.Handler(), rules.MaxDelay) // where rules decide, they may delay
	settings := &n.config.Service
	log := n.log.With("listener", "api")
	api, err := httpapi.New(httpapi.Config{
		Engine: n.engine, Identifier: n.identity, Token: n.service.token, Logins: n.logins, Fields: n.config.Fields(),
		MaxBody: int(settings.MaxBody), MaxBatch: settings.MaxBatch, Parallel: n.parallel(),
		Also:   map[string]http.Handler{"/json": envoy, "/healthcheck": envoy}, // which ask for the token where it is needed
		Logger: log,
	})
	if err != nil {
		return nil, err
	}
	return service.NewHTTP(service.HTTPConfig{
		Handler: apiHosts(n.config).guard(api), TLS: settings.API.TLS.Settings(), MaxConns: settings.MaxConns,
		Conns: n.connLimits(settings.MaxConnsPerAddress), Logger: log,
	})
}

// openRESP makes the server for clients of Redis.
func (n *Node) openRESP() (protocolServer, error) {
	settings := &n.config.Service
	c := resp.Config{
		Engine: n.engine, Store: n.stores.main(), OnFailure: settings.RESP.OnFailure,
		Token: n.service.token, AdminToken: n.service.admin, Logins: n.logins, TLS: settings.RESP.TLS.Settings(), Identity: n.identity,
		Limits:  resp.Limits{Conns: settings.MaxConns},
		Conns:   n.connLimits(settings.MaxConnsPerAddress),
		Version: n.options.Version, Logger: n.log.With("listener", "resp"),
	}
	if settings.MaxConns == 0 {
		c.Limits.Conns = service.DefaultMaxConns
	}
	switch settings.RESP.IdleTimeout {
	case config.SpanOff:
		c.Limits.IdleTimeout = -1
	default:
		c.Limits.IdleTimeout = settings.RESP.IdleTimeout.Duration()
	}
	if memory := n.stores.memory; !n.stores.shared() {
		c.Bind = func(l headgate.Limit) (resp.Bound, error) { return memory.Bind(l) }
	}
	return resp.New(c)
}

// serveService begins to serve. What ends before it should is told to stop.
func (n *Node) serveService(ctx context.Context, group *sync.WaitGroup, stop context.CancelCauseFunc) {
	for _, p := range n.service.protocols {
		group.Go(func() {
			if err := p.server.Serve(p.listener); err != nil {
				stop(fmt.Errorf("%s: %w", p.name, err))
			}
		})
	}
	if e := n.service.envoy; e != nil && n.config.EnvoyConfig != "" {
		group.Go(func() {
			if err := e.Watch(ctx); err != nil {
				n.log.Error("the limits for Envoys are not watched", "err", err.Error())
			}
		})
	}
}

// drainService lets calls finish: Envoys and load balancers are told at once, and after the delay in which they notice nobody
// is accepted any more.
func (n *Node) drainService() {
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
	time.Sleep(delay) // a second signal ends the program
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var group sync.WaitGroup
	for _, p := range d.protocols {
		group.Go(func() {
			if err := p.server.Shutdown(ctx); err != nil {
				n.log.Warn("drained incompletely", "listener", p.name, "err", err.Error())
			}
		})
	}
	group.Wait()
}

// closeService closes what was opened, served or not.
func (n *Node) closeService() {
	for _, p := range n.service.protocols {
		shutDown(p.server)
		if p.listener != nil {
			_ = p.listener.Close() // whoever serves it has done so already
		}
	}
}

// shutDown ends a server at once. After a drain there is nothing left to end.
func shutDown(s protocolServer) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Shutdown(ended) // it says that it was in a hurry
}

// reloadService reads certificates and limits for Envoys again.
func (n *Node) reloadService() {
	for _, p := range n.service.protocols {
		_ = p.server.Reload() // it has told the log
	}
	if n.service.envoy != nil {
		_ = n.service.envoy.Reload() // so has this
	}
}

// measure adds the figures of the decision service to those that are scraped.
func (d *decisionService) measure(to *telemetry.Sources) {
	if len(d.protocols) > 0 {
		to.Service = func() []telemetry.Listener {
			var list []telemetry.Listener
			for _, p := range d.protocols {
				list = append(list, p.figures())
			}
			return list
		}
	}
	for _, p := range d.protocols {
		if s, ok := p.server.(*resp.Server); ok {
			to.RESP = func() telemetry.RESP {
				f := s.Stats()
				return telemetry.RESP{
					Commands: f.Commands, Errors: f.Errors, Allowed: f.Allowed, Denied: f.Denied, StoreFailures: f.StoreFailures,
					Expired: f.Expired, Broken: f.Broken, RefusedTokens: f.RefusedTokens,
				}
			}
		}
	}
	if d.envoy == nil {
		return
	}
	to.Envoy = func() telemetry.Envoy {
		f := d.envoy.Stats()
		made := telemetry.Envoy{
			Requests: f.Requests, Over: f.Over, Refused: f.Refused, Degraded: f.Degraded, UnknownDomain: f.UnknownDomain,
			Loads: f.Loads, LoadsRefused: f.LoadsRefused,
		}
		for i := range f.Limits {
			made.Limits = append(made.Limits, telemetry.EnvoyLimit(f.Limits[i]))
		}
		return made
	}
}

// figures returns what a listener has counted.
func (p *protocol) figures() telemetry.Listener {
	made := telemetry.Listener{Name: p.name}
	switch s := p.server.(type) {
	case interface{ Conns() *service.Conns }:
		c := s.Conns()
		counts := c.Counts()
		made.Conns, made.Accepted, made.Refused, made.Reclaimed = c.Open(), counts.Accepted, counts.Refused, counts.Reclaimed
	case *resp.Server:
		f := s.Stats()
		made.Conns, made.Accepted, made.Refused, made.Reclaimed = f.Open, f.Accepted, f.Refused, f.Reclaimed
	}
	return made
}
