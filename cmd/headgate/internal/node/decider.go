package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/telemetry"
)

// A Decider decides as a node would, without serving anybody.
type Decider struct {
	Engine *engine.Engine

	identity *identity.Identifier
	stores   *stores
}

// OpenDecider opens the stores and rules of a configuration. Redis must be there.
func OpenDecider(ctx context.Context, c *config.Config, log *slog.Logger) (*Decider, error) {
	secret, err := c.Secret()
	if err != nil {
		return nil, err
	}
	d := &Decider{}
	settings := c.IdentityConfig(secret, nil)
	settings.UserFrom = nil // attributes are given, not found
	if d.identity, err = identity.New(settings); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(c.Rules)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Where("rules"), err)
	}
	set, err := compile(c.Rules, data, widthsOf(c))
	if err != nil {
		return nil, err
	}
	if d.stores, err = openStores(ctx, c, secret, false, telemetry.New(""), log); err != nil {
		return nil, err
	}
	// What nodes know of each other, nobody tells this process: it has leases without holding one, and counts by itself what
	// they would tell.
	far, alone := d.stores.main(), d.stores.memory
	d.Engine, err = engine.New(engine.Config{
		Rules: set, Store: far, Local: alone, Shared: d.stores.shared(),
		Modes:   map[rules.Consistency]headgate.Limiter{rules.Lease: far, rules.Async: alone, rules.Gossip: alone},
		Global:  map[rules.Consistency]headgate.Limiter{rules.Exact: far, rules.Lease: far, rules.Async: alone},
		OnError: func(err error) { log.Error(err.Error()) },
	})
	if err != nil {
		return nil, errors.Join(Locate(c.Rules, data, err), d.Close())
	}
	return d, nil
}

// Read returns a request with these attributes.
func (d *Decider) Read(v identity.Values) (*identity.Attributes, error) {
	var who identity.Attributes
	if err := d.identity.ReadValues(v, &who); err != nil {
		return nil, err
	}
	return &who, nil
}

// Close closes the stores.
func (d *Decider) Close() error { return d.stores.close() }
