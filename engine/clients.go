package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
)

// AddClient registers a client. It takes precedence over clients that were compiled with the rules, and stays
// registered when the rules change. The error is a *rules.Error if another client of AddClient has the same id or
// attribute value, or if the client's limits cannot be used with the current rules.
func (e *Engine) AddClient(c rules.Client) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.current.Load().Check(c); err != nil {
		return err
	}
	return e.registry.Add(c)
}

// Clients returns the number of clients that AddClient has registered.
func (e *Engine) Clients() int { return e.registry.Len() }

// RemoveClient removes a client that AddClient has registered, and resets its counters. It returns ErrNoClient if no
// such client has that id. If a counter cannot be reset, it returns the error, and the client is removed all the same.
//
// It resets the client's counters and penalties under rules that count by a single attribute of the client, or that
// fall back to its address. Counters under rules with several key attributes, such as user and path, and counters that
// clients share remain until they expire.
func (e *Engine) RemoveClient(ctx context.Context, id string) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	counters, ok := e.removeClient(id)
	if !ok {
		return fmt.Errorf("%w: %s", ErrNoClient, rules.Quote(id))
	}
	var errs []error
	for _, c := range counters {
		if err := c.reset(ctx); err != nil {
			errs = append(errs,
				fmt.Errorf("engine: reset the counters of client %s under rule %s: %w", rules.Quote(id), c.rule, err))
		}
	}
	return errors.Join(errs...)
}

// removeClient removes a client and returns its counters. It returns false if there is no client with that id.
func (e *Engine) removeClient(id string) ([]counter, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.registry.Get(id)
	if !ok {
		return nil, false
	}
	counters := e.countersOf(c) // before the removal, because they depend on the client's limits
	e.registry.Remove(id)
	return counters, true
}

// A counter says where the units of a key are counted. The fields key, owner and split are those of a headgate.Check.
type counter struct {
	store      *store
	rule       string // id of its rule
	key, owner string
	split      int
}

func (c *counter) reset(ctx context.Context) error {
	return c.store.Reset(ctx, headgate.Check{Key: c.key, Owner: c.owner, Split: c.split})
}

// countersOf returns the counters of a client whose keys consist of one attribute. If a key has other attributes too,
// their values are not known.
func (e *Engine) countersOf(c *rules.Client) []counter {
	set := e.current.Load()
	var list []counter
	for _, r := range set.Rules() {
		if r.Unlimited || r.Block {
			continue
		}
		for _, attr := range c.Attributes {
			if !countsBy(r, attr.Attribute) {
				continue
			}
			for _, value := range attr.Values {
				s := rules.Attributes{attr.Attribute: value}
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

// appendCounters appends all counters that a client may have under a rule: those of its current limits m.Limits, of the
// rule's own limits, of its overrides and of its penalty.
func (e *Engine) appendCounters(list []counter, m *match.Result, s rules.Subject) []counter {
	r := m.Rule
	base, owner := string(m.AppendKeyBase(nil, s)), string(m.AppendOwner(nil, s))
	type counterID struct {
		store     *store
		limitName string
	}
	added := map[counterID]bool{}
	add := func(store *store, limitName string) {
		if id := (counterID{store, limitName}); !added[id] {
			added[id] = true
			c := counter{store: store, rule: r.ID, key: base + limitName, owner: owner, split: r.Split}
			list = append(list, c)
		}
	}
	ruleStore := &e.stores.list[e.stores.forRule(r)]
	addLimit := func(name string) {
		add(ruleStore, name)
		if r.OnFailure == headgate.Local {
			add(e.local(), name) // the local store counts while the rule's store is unreachable
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
