package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/file"
	"github.com/headgate/headgate/telemetry"
)

// A Decider decides as a node would, without serving anybody.
type Decider struct {
	Engine *engine.Engine

	identity *identity.Identifier
	cost     int64
	stores   *stores
}

// OpenDecider opens the stores and rules of a configuration. A cost above 0 is taken in place of what rules say. Redis must
// be there.
func OpenDecider(ctx context.Context, c *config.Config, cost int64, log *slog.Logger) (*Decider, error) {
	secret, err := c.Secret()
	if err != nil {
		return nil, err
	}
	d := &Decider{cost: cost}
	settings := c.IdentityConfig(secret, nil)
	settings.UserFrom = nil // attributes are given, not found
	if d.identity, err = identity.New(settings); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(c.Rules)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Where("rules"), err)
	}
	set, err := compileWith(c.Rules, data, widthsOf(c), cost)
	if err != nil {
		return nil, err
	}
	if d.stores, err = openStores(ctx, c, secret, false, telemetry.New(""), log); err != nil {
		return nil, err
	}
	d.Engine, err = engine.New(engine.Config{
		Rules: set, Store: d.stores.main(), Local: d.stores.memory, Shared: d.stores.shared(),
		OnError: func(err error) { log.Error(err.Error()) },
	})
	if err != nil {
		return nil, errors.Join(Locate(c.Rules, data, err), d.Close())
	}
	return d, nil
}

// costHeader is a header of which rules take the cost that a decider is told.
const costHeader = "X-Headgate-Check-Cost"

// compileWith makes rules ready that take another cost than they say, if it is not 0. One that holds a place takes one.
func compileWith(name string, data []byte, w widths, cost int64) (*rules.Set, error) {
	doc, err := file.Parse(name, data)
	if err != nil {
		return nil, err
	}
	if err := w.refuses(name, data, doc); err != nil {
		return nil, err
	}
	for i := range doc.Rules {
		r := &doc.Rules[i]
		places := slices.ContainsFunc(r.Limits, func(l rules.Limit) bool { return l.Algorithm == headgate.Concurrency })
		if cost > 0 && len(r.Limits) > 0 && !places {
			// In a header it may be more than a limit has, which is then denied instead of refused.
			r.Cost = rules.Cost{Header: costHeader, Max: headgate.MaxCount}
		}
	}
	return doc.Compile()
}

// Read returns a request with these attributes.
func (d *Decider) Read(v identity.Values) (*identity.Attributes, error) {
	if d.cost > 0 {
		v.Attributes = maps.Clone(v.Attributes)
		v.Attributes["header."+costHeader] = strconv.FormatInt(d.cost, 10)
	}
	var who identity.Attributes
	if err := d.identity.ReadValues(v, &who); err != nil {
		return nil, err
	}
	return &who, nil
}

// Close closes the stores.
func (d *Decider) Close() error { return d.stores.close() }
