package follow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/control"
)

// An overlay applies temporary overrides to the clients of a registry.
type overlay struct {
	overrides map[string]*override
	clients   map[string]*overriddenClient // clients changed by overrides, by id
}

// An override is a control.Override with its revision.
type override struct {
	control.Override
	revision int64
}

// An overriddenClient is a client that overrides change.
type overriddenClient struct {
	base      *rules.Client // as registered; nil for a temporary client
	overrides []*override
	effective rules.Client // with the overrides applied, as in the registry
}

func newOverlay() overlay {
	return overlay{overrides: map[string]*override{}, clients: map[string]*overriddenClient{}}
}

func (o *overlay) clone() overlay {
	clone := overlay{overrides: maps.Clone(o.overrides), clients: make(map[string]*overriddenClient, len(o.clients))}
	for id, c := range o.clients {
		copied := *c
		clone.clients[id] = &copied
	}
	return clone
}

// add adds an override.
func (o *overlay) add(item *control.Item) error {
	parsed, err := control.ParseOverride("override.json", item.Body, time.Time{})
	if err != nil {
		return fmt.Errorf("override %s: %w", rules.Quote(item.ID), err)
	}
	o.overrides[item.ID] = &override{parsed, item.Revision}
	return nil
}

// active returns the overrides in force, in the order in which they apply: overrides of all rules before overrides of
// one rule, each with blocks last, otherwise by revision.
func (o *overlay) active(now time.Time) []*override {
	var list []*override
	for _, entry := range o.overrides {
		if entry.Expires.After(now) {
			list = append(list, entry)
		}
	}
	slices.SortFunc(list, func(a, b *override) int {
		return cmp.Or(
			compareBools(a.Rule != "", b.Rule != ""), compareBools(a.Block, b.Block),
			cmp.Compare(a.revision, b.revision), cmp.Compare(a.ID, b.ID),
		)
	})
	return list
}

// compareBools sorts false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// nextExpiry returns when the next override expires, zero if none will.
func (o *overlay) nextExpiry(now time.Time) time.Time {
	var first time.Time
	for _, entry := range o.overrides {
		if entry.Expires.After(now) && (first.IsZero() || entry.Expires.Before(first)) {
			first = entry.Expires
		}
	}
	return first
}

// count returns the number of overrides in force.
func (o *overlay) count(now time.Time) int { return len(o.active(now)) }

// apply updates the clients of a registry to the overrides in force. Overrides of unknown rules have no effect.
func (o *overlay) apply(to *undoRegistry, set *match.Set, now time.Time) error {
	clients, order, err := o.overriddenClients(to, set, now)
	if err != nil {
		return err
	}
	for id, c := range o.clients {
		if clients[id] != nil {
			continue
		}
		if c.base == nil {
			to.remove(id)
		} else if err := to.put(*c.base); err != nil {
			return err
		}
		delete(o.clients, id)
	}
	for _, id := range order {
		c := clients[id]
		if old := o.clients[id]; old == nil || !reflect.DeepEqual(old.effective, c.effective) {
			if err := to.put(c.effective); err != nil {
				return err
			}
		}
		o.clients[id] = c
	}
	return nil
}

// overriddenClients returns the clients that overrides change, and their IDs in the order of the overrides.
func (o *overlay) overriddenClients(
	to *undoRegistry, set *match.Set, now time.Time,
) (map[string]*overriddenClient, []string, error) {
	clients := map[string]*overriddenClient{}
	var order []string
	temporaryIDs := map[value]string{} // values without a client, and the temporary client for each
	for _, entry := range o.active(now) {
		if entry.Rule != "" && set.Rule(entry.Rule) == nil {
			continue
		}
		client, err := entry.AsClient()
		if err != nil {
			return nil, nil, fmt.Errorf("override %s: %w", rules.Quote(entry.ID), err)
		}
		seen := map[string]bool{} // several of its attributes may match one client
		for i, t := range client.Attributes {
			id, added := o.clientOf(to, entry, i, t, temporaryIDs)
			if seen[id] {
				continue
			}
			seen[id] = true
			if clients[id] == nil {
				clients[id] = added
				order = append(order, id)
			}
			c := clients[id]
			c.overrides = append(c.overrides, entry)
			if c.effective, err = entry.ApplyTo(c.effective); err != nil {
				return nil, nil, fmt.Errorf("override %s: %w", rules.Quote(entry.ID), err)
			}
		}
	}
	return clients, order, nil
}

// A value is an attribute with its value.
type value struct{ attribute, text string }

// clientOf returns the client that attribute i of an override matches, without any overrides. If no client is
// registered, it is a temporary one.
func (o *overlay) clientOf(
	to *undoRegistry, from *override, i int, t rules.Test, temporaryIDs map[value]string,
) (string, *overriddenClient) {
	if found, ok := to.registry.Lookup(t.Attribute, t.Values[0]); ok {
		switch existing := o.clients[found.ID]; {
		case existing == nil:
			base := control.WithoutDefaultNames(*found)
			return found.ID, &overriddenClient{base: &base, effective: base}
		case existing.base != nil:
			return found.ID, &overriddenClient{base: existing.base, effective: *existing.base}
		}
	}
	key := value{t.Attribute.String(), t.Values[0]}
	id, ok := temporaryIDs[key]
	if !ok {
		id = o.idFor(to, from.ID, i)
		temporaryIDs[key] = id
	}
	return id, &overriddenClient{effective: rules.Client{ID: id, Attributes: []rules.Test{t}}}
}

// idFor returns an unused id for a temporary client.
func (o *overlay) idFor(to *undoRegistry, override string, i int) string {
	id := "override:" + override
	if len(id) > rules.MaxName-8 { // leave space for the suffixes below
		sum := sha256.Sum256([]byte(override))
		id = "override:" + hex.EncodeToString(sum[:16])
	}
	if i > 0 {
		id = fmt.Sprint(id, ":", i)
	}
	for {
		_, taken := to.registry.Get(id)
		if c := o.clients[id]; !taken || c != nil && c.base == nil {
			return id
		}
		id += "+"
	}
}
