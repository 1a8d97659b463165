package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// AddClient registers a client, beside those of the rules and with precedence over them. It stays when rules change.
// The error is a *rules.Error if the client was added already or its limits cannot be used under the rules in force.
func (e *Engine) AddClient(c rules.Client) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.current.Load().Check(c); err != nil {
		return err
	}
	return e.registry.Add(c)
}

// Clients returns the number of clients that were added.
func (e *Engine) Clients() int { return e.registry.Len() }

// RemoveClient removes a client that was added, and resets its counters. It returns ErrNoClient if there is none with
// that id. After any other error the client is removed, but some counters may remain.
//
// It resets the counters of rules that count by a single attribute, or fall back to the address, under the client's
// values of that attribute, and the client's penalties. Counters of rules with several key attributes (user and path,
// say) and shared counters remain until they expire.
func (e *Engine) RemoveClient(ctx context.Context, id string) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	counters, ok := e.removeClient(id)
	if !ok {
		return fmt.Errorf("%w: %s", ErrNoClient, rules.Quote(id))
	}
	var errs []error
	for _, n := range counters {
		if err := n.reset(ctx); err != nil {
			errs = append(errs,
				fmt.Errorf("engine: reset the counters of client %s under rule %s: %w", rules.Quote(id), n.rule, err))
		}
	}
	return errors.Join(errs...)
}

// removeClient removes a client and returns its counters. It returns false if there is none with that id.
func (e *Engine) removeClient(id string) ([]counter, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.registry.Get(id)
	if !ok {
		return nil, false
	}
	counters := e.countersOf(c) // before removal: they depend on the client's limits
	e.registry.Remove(id)
	return counters, true
}

// A counter identifies a counter in a store.
type counter struct {
	store      *store
	rule       string
	key, owner string
	split      int
}

// reset resets the counter.
func (n *counter) reset(ctx context.Context) error {
	return n.store.Reset(ctx, headgate.Check{Key: n.key, Owner: n.owner, Split: n.split})
}

// countersOf returns the counters of a client that can be enumerated.
func (e *Engine) countersOf(c *rules.Client) []counter {
	set := e.current.Load()
	var list []counter
	for _, r := range set.Rules() {
		if r.Unlimited || r.Block {
			continue
		}
		for _, t := range c.Attributes {
			if !countsBy(r, t.Attribute) {
				continue
			}
			for _, value := range t.Values {
				s := rules.Attributes{t.Attribute: value}
				if m, ok := set.MatchRule(r.ID, s); ok {
					list = e.appendCounters(list, &m, s)
				}
			}
		}
	}
	return list
}

// countsBy reports whether a rule counts clients by an attribute alone.
func countsBy(r *rules.Rule, a headgate.Attribute) bool {
	if len(r.Key) == 1 && r.Key[0] == a {
		return true
	}
	return len(r.Key) > 0 && a.Kind == headgate.AttrIP && r.Fallback == rules.FallbackIP
}

// appendCounters appends all counters that a client may have under a rule, under any limits.
func (e *Engine) appendCounters(list []counter, m *match.Result, s rules.Subject) []counter {
	r := m.Rule
	base, owner := string(m.AppendKeyBase(nil, s)), string(m.AppendOwner(nil, s))
	type name struct {
		store *store
		limit string
	}
	added := map[name]bool{}
	add := func(st *store, limit string) {
		if n := (name{st, limit}); !added[n] {
			added[n] = true
			list = append(list, counter{store: st, rule: r.ID, key: base + limit, owner: owner, split: r.Split})
		}
	}
	ruleStore := &e.stores.list[e.stores.forRule(r)]
	addLimit := func(name string) {
		add(ruleStore, name)
		if r.OnFailure == headgate.Local {
			add(e.local(), name) // it counts while the store is unreachable
		}
	}
	for i := range m.Limits {
		addLimit(m.LimitName(i))
	}
	addLimits := func(limits []rules.Limit) {
		for i := range limits {
			addLimit(limits[i].Name)
		}
	}
	addLimits(r.Limits)
	for i := range r.Overrides {
		addLimits(r.Overrides[i].Limits)
	}
	if r.Penalty != nil {
		addLimits(r.Penalty.Limits)
		add(e.local(), denialsName)
		add(e.local(), markName)
	}
	return list
}
