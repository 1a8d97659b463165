package engine

import (
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/rules"
)

// An Engine decides requests by rules. Make one with New. It is safe for concurrent use. It starts no goroutine that
// outlives a call, or a verdict that keeps slots, and does not close its stores.
type Engine struct {
	config  Config
	stores  stores
	current atomic.Pointer[rules.Set] // in force; never nil
	waiting atomic.Int64              // requests that are held
	gone    atomic.Uint64             // how many clients were removed, or are about to be
	sealer  *sealer                   // of leases; nil if they are not sealed

	mu       sync.Mutex // of those who change rules or clients
	registry *rules.Registry
}

// New returns an engine. The error says what is wrong with the Config, or which of its rules this engine cannot keep.
func New(c Config) (*Engine, error) {
	s, err := newStores(&c)
	if err != nil {
		return nil, err
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = DefaultMaxWaiting
	}
	if c.OnError == nil {
		c.OnError = logError()
	}
	registry, err := rules.NewRegistry()
	if err != nil {
		return nil, err
	}
	seals, err := newSealer(c.Secret, c.Shared)
	if err != nil {
		return nil, err
	}
	c.Secret = nil
	e := &Engine{config: c, stores: s, registry: registry, sealer: seals}
	if err := e.SetRules(c.Rules); err != nil {
		return nil, err
	}
	return e, nil
}

// Rules returns the rules in force, an empty set if there are none.
func (e *Engine) Rules() *rules.Set { return e.current.Load() }

// SetRules puts other rules in force, none if set is nil. A request that is being decided goes by the rules that it began
// with. What was consumed is remembered by rule and limit, so that a limit that is changed keeps it: a raised one helps at
// once, even a client that is exhausted. Clients that were added stay; they are not held against the new rules.
//
// Rules that ask for what this engine does not have are refused with a *rules.Error, and those in force stay.
func (e *Engine) SetRules(set *rules.Set) error {
	if set == nil {
		empty, err := rules.Compile(nil)
		if err != nil {
			return err
		}
		set = empty
	}
	if err := e.refuses(set); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current.Store(set.WithRegistry(e.registry))
	return nil
}

// refuses says what of the rules this engine cannot do.
func (e *Engine) refuses(set *rules.Set) error {
	var found rules.Error
	for _, r := range set.Rules() {
		if e.stores.of(r) != noStore {
			continue
		}
		if len(found.Problems) == rules.MaxProblems {
			found.More++
			continue
		}
		found.Problems = append(found.Problems, e.lacks(r))
	}
	if found.Problems == nil {
		return nil
	}
	return &found
}

// lacks says what there is no store for.
func (e *Engine) lacks(r *rules.Rule) rules.Problem {
	if r.Scope == rules.ScopeGlobal {
		return rules.Problem{
			Path: "rule " + r.ID + ": scope", Value: r.Scope.String(),
			Want: "region: this node has no global store, which it needs",
		}
	}
	needs := "a store in Redis"
	if r.Consistency == rules.Gossip {
		needs = "an address to gossip on"
	}
	return rules.Problem{
		Path: "rule " + r.ID + ": consistency", Value: r.Consistency.String(),
		Want: "exact or local: this node has not got " + needs + ", which it needs",
	}
}

// Waiting returns how many requests are held by on_limit: delay.
func (e *Engine) Waiting() int { return int(e.waiting.Load()) }

// mode returns how the limits of a rule are counted.
func (e *Engine) mode(r *rules.Rule) rules.Consistency {
	switch {
	case r.Consistency != rules.ByStore:
		return r.Consistency
	case e.config.Shared:
		return rules.Exact
	default:
		return rules.Local
	}
}

// local returns the store that counts in this process.
func (e *Engine) local() *store { return &e.stores.list[e.stores.local] }

// report tells of an error that no caller gets to see.
func (e *Engine) report(err error) { e.config.OnError(err) }
