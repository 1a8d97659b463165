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

// An Engine decides requests by rules. Create one with New. It is safe for concurrent use, and does not close its
// stores. Each of its goroutines ends before the call that started it returns, except those of Verdict.KeepSlots.
type Engine struct {
	config  Config
	stores  stores
	current atomic.Pointer[match.Set] // the rules in effect; never nil
	waiting atomic.Int64              // number of requests that are delayed
	sealer  *sealer                   // encrypts leases; nil if they are not encrypted

	mu       sync.Mutex         // held to change rules or clients
	registry *registry.Registry // the clients of AddClient
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
	clients, err := registry.New()
	if err != nil {
		return nil, err
	}
	leaseSealer, err := newSealer(c.Secret, c.SecondSecret, c.Shared)
	if err != nil {
		return nil, err
	}
	c.Secret, c.SecondSecret = nil, nil // only the sealer needs them
	e := &Engine{config: c, stores: s, registry: clients, sealer: leaseSealer}
	if err := e.SetRules(c.Rules); err != nil {
		return nil, err
	}
	return e, nil
}

// Rules returns the rules in effect: an empty set if there are none.
func (e *Engine) Rules() *match.Set { return e.current.Load() }

// SetRules replaces the rules; nil means no rules. Decisions that have already begun use the old rules. A changed limit
// keeps its counters, which are found by the rule's id and the limit's name: after a limit is raised, a client that had
// reached it can continue at once. Clients of AddClient stay registered, and are not checked against the new rules.
//
// If a rule needs a store that this engine does not have, SetRules returns a *rules.Error and changes nothing.
func (e *Engine) SetRules(set *match.Set) error {
	if set == nil {
		empty, err := match.Compile(nil)
		if err != nil {
			return err
		}
		set = empty
	}
	if err := e.validateStores(set); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.current.Store(set.WithRegistry(e.registry))
	return nil
}

// validateStores returns a *rules.Error that lists the rules whose store this engine does not have, or nil.
func (e *Engine) validateStores(set *match.Set) error {
	var problems rules.Error
	for _, r := range set.Rules() {
		if e.stores.forRule(r) != noStore {
			continue
		}
		if len(problems.Problems) == rules.MaxProblems {
			problems.More++
			continue
		}
		problems.Problems = append(problems.Problems, e.missingStoreProblem(r))
	}
	if problems.Problems == nil {
		return nil
	}
	return &problems
}

// missingStoreProblem describes the missing store of a rule.
func (e *Engine) missingStoreProblem(r *rules.Rule) rules.Problem {
	if r.Scope == rules.ScopeGlobal {
		return rules.Problem{
			Path: "rule " + r.ID + ": scope", Value: r.Scope.String(),
			Want: "region, since this node has no global store",
		}
	}
	need := "Redis store"
	if r.Consistency == rules.Gossip {
		need = "gossip address"
	}
	return rules.Problem{
		Path: "rule " + r.ID + ": consistency", Value: r.Consistency.String(),
		Want: "exact or local, since this node has no " + need,
	}
}

// Waiting returns the number of requests that rules with on_limit: delay are delaying now.
func (e *Engine) Waiting() int { return int(e.waiting.Load()) }

// mode returns the consistency of a rule's limits: the rule's own, or the default for the store.
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
