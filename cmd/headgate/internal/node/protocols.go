package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/service"
	"github.com/headgate/headgate/service/httpapi"
)

// A protocol is one by which the decision service is asked.
type protocol struct {
	name     string
	listener net.Listener
	server   protocolServer
}

// A protocolServer is what the packages of service have in common.
type protocolServer interface {
	// Serve serves until Shutdown, and then returns nil.
	Serve(net.Listener) error
	// Shutdown lets calls finish. When ctx ends before, it cuts them off.
	Shutdown(context.Context) error
}

// inParallel is how many decisions of one batch are asked of a store behind a network at once.
const inParallel = 64

// openProtocols opens the listeners of the decision service.
func (n *Node) openProtocols() error {
	token, err := n.config.Token()
	if err != nil {
		return err
	}
	if w := token.Warning(); w != "" {
		n.log.Warn(w, "setting", n.config.Where("api-token-file"))
	}
	for _, p := range []struct {
		name, setting, addr string
		open                func(*service.Token) (protocolServer, error)
	}{
		{"api", "api-addr", n.config.APIAddr, n.openAPI},
	} {
		if p.addr == config.Off {
			continue
		}
		s, err := p.open(token)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			return fmt.Errorf("%s: %w", n.config.Where(p.setting), err)
		}
		n.protocols = append(n.protocols, &protocol{name: p.name, listener: l, server: s})
		if token == nil && !onLoopback(l.Addr()) {
			n.log.Warn("others can ask the decision service, which asks for no token; give one with --api-token-file",
				"listener", p.name, "address", l.Addr().String())
		}
	}
	return nil
}

// onLoopback tells whether only this host reaches an address.
func onLoopback(addr net.Addr) bool {
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().Unmap().IsLoopback()
}

// openAPI makes the server of HTTP.
func (n *Node) openAPI(token *service.Token) (protocolServer, error) {
	settings := &n.config.Service
	c := httpapi.Config{
		Engine: n.engine, Identifier: n.identity, Token: token, Fields: n.config.Fields(),
		MaxBody: int(settings.MaxBody), MaxBatch: settings.MaxBatch, Logger: n.log,
	}
	if n.stores.shared() {
		c.Parallel = inParallel
	}
	api, err := httpapi.New(c)
	if err != nil {
		return nil, err
	}
	return service.NewHTTP(service.HTTPConfig{Handler: api, MaxConns: settings.MaxConns, Logger: n.log.With("server", "api")})
}

// serveProtocols begins to serve. What ends before it should is told to stop.
func (n *Node) serveProtocols(group *sync.WaitGroup, stop context.CancelCauseFunc) {
	for _, p := range n.protocols {
		group.Go(func() {
			if err := p.server.Serve(p.listener); err != nil {
				stop(fmt.Errorf("%s: %w", p.name, err))
			}
		})
	}
}

// drainProtocols lets calls finish: after the delay in which load balancers notice, nobody is accepted any more.
func (n *Node) drainProtocols() {
	if len(n.protocols) == 0 {
		return
	}
	delay, timeout := n.config.Drain()
	time.Sleep(delay) // the second signal ends the program
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var group sync.WaitGroup
	for _, p := range n.protocols {
		group.Go(func() {
			if err := p.server.Shutdown(ctx); err != nil {
				n.log.Warn("drained incompletely", "listener", p.name, "error", err.Error())
			}
		})
	}
	group.Wait()
}

// closeProtocols closes what was opened, served or not.
func (n *Node) closeProtocols() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range n.protocols {
		_ = p.server.Shutdown(ended) // after a drain there is nothing left
		_ = p.listener.Close()
	}
}
