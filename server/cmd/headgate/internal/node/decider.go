package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/cmd/headgate/internal/clientip"
	"github.com/headgate/headgate/server/cmd/headgate/internal/config"
	"github.com/headgate/headgate/server/cmd/headgate/internal/limiters"
	"github.com/headgate/headgate/server/telemetry"
)

// A Decider makes the same decisions as a node with the same configuration, but has no listeners.
type Decider struct {
	Engine *engine.Engine

	identity *identity.Identifier
	stores   *limiters.Stores
}

// OpenDecider opens the stores and rules of a configuration. Redis must be reachable.
func OpenDecider(ctx context.Context, c *config.Config, log *slog.Logger) (*Decider, error) {
	secret, err := c.Secret()
	if err != nil {
		return nil, err
	}
	secondSecret, err := c.SecondSecret()
	if err != nil {
		return nil, err
	}
	d := &Decider{}
	settings := c.IdentityConfig(secret, nil)
	settings.UserFrom = nil // Read gets the user from its argument
	if d.identity, err = identity.New(settings); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(c.Rules)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Origin("rules"), err)
	}
	set, err := compile(c.Rules, data, clientip.New(c))
	if err != nil {
		return nil, err
	}
	if d.stores, err = limiters.OpenStores(ctx, limiters.StoreOptions{
		Config: c, Secret: secret, SecondSecret: secondSecret, Metrics: telemetry.New(""), Logger: log,
	}); err != nil {
		return nil, err
	}
	// This process receives no updates from nodes, so the store decides lease rules exactly, and async and gossip rules
	// are decided in memory.
	main, memory := d.stores.Main(), d.stores.Memory
	d.Engine, err = engine.New(engine.Config{
		Rules: set, Store: main, Local: memory, Shared: d.stores.Shared(),
		Modes:   map[rules.Consistency]headgate.Limiter{rules.Lease: main, rules.Async: memory, rules.Gossip: memory},
		Global:  map[rules.Consistency]headgate.Limiter{rules.Exact: main, rules.Lease: main, rules.Async: memory},
		OnError: func(err error) { log.Error(err.Error()) },
	})
	if err != nil {
		return nil, errors.Join(Locate(c.Rules, data, err), d.Close())
	}
	return d, nil
}

// Read converts the values of a request to attributes.
func (d *Decider) Read(v identity.Values) (*identity.Attributes, error) {
	var attributes identity.Attributes
	if err := d.identity.ReadValues(v, &attributes); err != nil {
		return nil, err
	}
	return &attributes, nil
}

// Close closes the stores.
func (d *Decider) Close() error { return d.stores.Close() }
