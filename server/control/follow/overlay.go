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
	clients   map[string]*overriddenClient // clients changed by overrides, by ID
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
	effective rules.Client // base with the overrides applied; this is in the registry
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

// active returns the overrides in force, in the order in which they are applied: overrides of all rules come before
// overrides of one rule, and within each group, blocks come last. Otherwise older revisions come first.
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

// compareBools is a comparison function that orders false before true.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// nextExpiry returns the time when the next override expires, zero if there is none.
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

// apply updates the clients of a registry so that exactly the overrides in force are applied to them. Overrides of
// unknown rules have no effect.
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
	temporaryIDs := map[attributeValue]string{} // IDs of temporary clients, by the value that each stands for
	for _, entry := range o.active(now) {
		if entry.Rule != "" && set.Rule(entry.Rule) == nil {
			continue
		}
		client, err := entry.AsClient()
		if err != nil {
			return nil, nil, fmt.Errorf("override %s: %w", rules.Quote(entry.ID), err)
		}
		seen := map[string]bool{} // several attributes of the override may match the same client
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

// An attributeValue is a value of an attribute.
type attributeValue struct{ attribute, value string }

// clientOf returns the registered client that t, attribute i of an override, matches, and its ID. No overrides are
// applied to it yet. If there is no such client, clientOf returns a temporary one.
func (o *overlay) clientOf(
	to *undoRegistry, entry *override, i int, t rules.Test, temporaryIDs map[attributeValue]string,
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
	key := attributeValue{t.Attribute.String(), t.Values[0]}
	id, ok := temporaryIDs[key]
	if !ok {
		id = o.unusedID(to, entry.ID, i)
		temporaryIDs[key] = id
	}
	return id, &overriddenClient{effective: rules.Client{ID: id, Attributes: []rules.Test{t}}}
}

// unusedID returns an unused ID for the temporary client of attribute i of an override.
func (o *overlay) unusedID(to *undoRegistry, override string, i int) string {
	id := "override:" + override
	if len(id) > rules.MaxName-8 { // leave space for the suffixes below
		sum := sha256.Sum256([]byte(override))
		id = "override:" + hex.EncodeToString(sum[:16])
	}
	if i > 0 {
		id = fmt.Sprint(id, ":", i)
	}
	for {
		_, exists := to.registry.Get(id)
		if c := o.clients[id]; !exists || c != nil && c.base == nil {
			return id
		}
		id += "+"
	}
}
