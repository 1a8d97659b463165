package engine

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/rules/registry"
)

// An Engine decides requests by rules. Create one with New. It is safe for concurrent use. It starts no goroutine that
// outlives a call or a verdict that keeps slots, and does not close its stores.
type Engine struct {
	config  Config
	stores  stores
	current atomic.Pointer[match.Set] // in force; never nil
	waiting atomic.Int64              // requests that are delayed
	sealer  *sealer                   // encrypts leases; nil if they are not encrypted

	mu       sync.Mutex // held to change rules or clients
	registry *registry.Registry
}

// New returns an engine. The error describes an invalid Config, or the rules that this engine does not support.
func New(c Config) (*Engine, error) {
	s, err := newStores(&c)
	if err != nil {
		return nil, err
	}
	if c.MaxWaiting == 0 {
		c.MaxWaiting = DefaultMaxWaiting
	}
	if c.Clock == nil {
		c.Clock = clock.System
	}
	if c.Random == nil {
		c.Random = rand.Uint32
	}
	if c.OnError == nil {
		c.OnError = logError(c.Clock)
	}
	registry, err := registry.New()
	if err != nil {
		return nil, err
	}
	sealer, err := newSealer(c.Secret, c.SecondSecret, c.Shared)
	if err != nil {
		return nil, err
	}
	c.Secret, c.SecondSecret = nil, nil
	e := &Engine{config: c, stores: s, registry: registry, sealer: sealer}
	if err := e.SetRules(c.Rules); err != nil {
		return nil, err
	}
	return e, nil
}

// Rules returns the rules in force, an empty set if there are none.
func (e *Engine) Rules() *match.Set { return e.current.Load() }

// SetRules replaces the rules; nil means none. A request that is being decided keeps the rules that it began with.
// Counters are found by rule and limit, so a changed limit keeps its count: a raised one helps at once, even a client
// that is exhausted. Clients that were added stay; they are not checked against the new rules.
//
// Rules that need a store that this engine does not have are refused with a *rules.Error, and the rules in force stay.
func (e *Engine) SetRules(set *match.Set) error {
	if set == nil {
		empty, err := match.Compile(nil)
		if err != nil {
			return err
		}
		set = empty
	}
	if err := e.unsupported(set); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current.Store(set.WithRegistry(e.registry))
	return nil
}

// unsupported returns the rules that this engine does not support, as an error.
func (e *Engine) unsupported(set *match.Set) error {
	var problems rules.Error
	for _, r := range set.Rules() {
		if e.stores.forRule(r) != noStore {
			continue
		}
		if len(problems.Problems) == rules.MaxProblems {
			problems.More++
			continue
		}
		problems.Problems = append(problems.Problems, e.missingStore(r))
	}
	if problems.Problems == nil {
		return nil
	}
	return &problems
}

// missingStore describes the missing store of a rule.
func (e *Engine) missingStore(r *rules.Rule) rules.Problem {
	if r.Scope == rules.ScopeGlobal {
		return rules.Problem{
			Path: "rule " + r.ID + ": scope", Value: r.Scope.String(),
			Want: "region, since this node has no global store",
		}
	}
	missing := "Redis store"
	if r.Consistency == rules.Gossip {
		missing = "gossip address"
	}
	return rules.Problem{
		Path: "rule " + r.ID + ": consistency", Value: r.Consistency.String(),
		Want: "exact or local, since this node has no " + missing,
	}
}

// Waiting returns the number of requests that on_limit: delay delays now.
func (e *Engine) Waiting() int { return int(e.waiting.Load()) }

// mode returns the consistency of a rule's limits.
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

// report reports an error that no caller sees.
func (e *Engine) report(err error) { e.config.OnError(err) }
