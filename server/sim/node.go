package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore/guard"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/gossip"
	"github.com/headgate/headgate/server/fleet/lease"
	"github.com/headgate/headgate/server/sim/virtual"
)

// A node is a simulated Headgate node, from its start to its end. A restarted node is a new node in the same
// slot.
type node struct {
	slot   int
	region int
	host   *virtual.Host
	random *rand.Rand
	engine *engine.Engine
	memory *memstore.Store // nil if the mode and the failure policy need no counters in the process
	shared headgate.Limiter
	// members counts the nodes of the region. It is nil in the modes local and gossip; the limiter of gossip counts.
	members fleet.Members
	lease   *lease.Limiter  // nil unless the mode is lease
	gossip  *gossip.Limiter // nil unless the mode is gossip
	port    *meshPort

	inFlight int64 // number of requests that the node has not decided yet
}

// fleetSecret is the key for hashing the keys of counters. All nodes of a simulation have the same secret.
var fleetSecret = []byte("a secret that all nodes share")

// nodeMemory is the maximum size, in bytes, of the counters in the memory of a node.
const nodeMemory = 1 << 30

// startNode starts a node in a slot.
func (w *world) startNode(slot int) error {
	w.incarnations++
	n := &node{slot: slot, region: w.regionOf(slot), random: rand.New(rand.NewPCG(w.nodeSeed, w.incarnations))}
	n.host = w.loop.NewHost("node-"+strconv.Itoa(slot), w.clocks[slot])
	var err error
	n.host.Run(func() { err = w.assemble(n) })
	if err != nil {
		return fmt.Errorf("start node %d: %w", slot, err)
	}
	w.nodes[slot] = n
	w.byName[n.host.Name] = n
	w.addLive(n.region, 1)
	if n.port != nil {
		n.host.Run(func() { w.introduce(n) })
	}
	return nil
}

// assemble creates the limiters of a node, as the server does.
func (w *world) assemble(n *node) error {
	mode := w.variant.Mode
	local := w.fallback
	if mode == rules.Local || w.scenario.OnFailure == headgate.Local {
		store, err := memstore.New(memstore.Options{Now: n.host.Now, MaxBytes: nodeMemory})
		if err != nil {
			return err
		}
		n.memory, local = store, store
	}
	if w.bugs.loseUpdates {
		local = &forgetfulLimiter{Limiter: local}
	}
	if w.bugs.partialTakes {
		local = &partialLimiter{local}
	}
	c := engine.Config{
		Rules: w.rules, Store: local, Local: local, Clock: n.host, Random: n.random.Uint32, OnError: func(error) {},
		Secret: fleetSecret, Modes: make(map[rules.Consistency]headgate.Limiter),
	}
	if mode != rules.Local {
		limiter, err := w.sharedLimiter(n, local)
		if err != nil {
			return err
		}
		if w.bugs.partialTakes && mode != rules.Exact { // with Exact, Redis has the bug
			limiter = &partialLimiter{limiter}
		}
		n.shared = limiter
		c.Shared = true
		switch {
		case w.scenario.Regions != nil:
			c.Global = map[rules.Consistency]headgate.Limiter{mode: limiter}
		case mode == rules.Exact:
			c.Store = limiter
		default:
			c.Modes[mode] = limiter
		}
	}
	var err error
	n.engine, err = engine.New(c)
	return err
}

// sharedLimiter creates the limiter of a mode in which nodes share counters.
func (w *world) sharedLimiter(n *node, local headgate.Limiter) (headgate.Limiter, error) {
	if w.variant.Mode != rules.Gossip {
		m, err := w.joinMembers(n)
		if err != nil {
			return nil, err
		}
		n.members = m
	}
	ledger := w.ledgerOptions(n)
	switch w.variant.Mode {
	case rules.Async:
		o := async.Options{
			Name: n.host.Name, Incarnation: w.incarnations, Interval: w.scenario.SyncInterval, Rand: n.random.Int64N,
			OnEvent: func(fleet.Event) {},
		}
		if w.scenario.Regions != nil {
			o.Interval = w.scenario.Regions.SyncInterval
		}
		return startExchange(w, n, o.Author(), func(x fleet.Exchange) (*async.Limiter, error) {
			return async.New(ledger, x, o)
		})
	case rules.Gossip:
		n.port = &meshPort{world: w, node: n, knows: make(map[*node]bool)}
		limiter, err := gossip.New(ledger, gossip.Options{
			Name: n.host.Name, Interval: w.scenario.SyncInterval, Random: rand.NewPCG(w.nodeSeed, n.random.Uint64()),
			OnEvent: func(gossip.Event) {},
			Mesh: func(to gossip.Listener) (gossip.Mesh, error) {
				n.port.listener = to
				return n.port, nil
			},
		})
		n.gossip = limiter
		return limiter, err
	}
	return w.redisLimiter(n, local)
}

// ledgerOptions returns the settings of a node's counters.
func (w *world) ledgerOptions(n *node) fleet.LedgerOptions {
	return fleet.LedgerOptions{
		Secret: fleetSecret, Members: n.members, Clock: n.host, Rand: n.random.Uint64,
		OnRefused: func(fleet.Peer, string) {},
	}
}

// redisLimiter creates the limiter of the mode exact or lease, whose counters are in Redis.
func (w *world) redisLimiter(n *node, local headgate.Limiter) (headgate.Limiter, error) {
	remote := &redisClient{w, n, w.serversOf(n.region)}
	guarded, err := guard.New(remote, guard.Options{
		Deadline: w.scenario.Redis.Deadline, Local: local, Nodes: n.members.Live, OnEvent: func(guard.Event) {},
		Clock: n.host, Rand: n.random.Int64N, Hash: hashKey,
	})
	if err != nil {
		return nil, err
	}
	var limiter headgate.Limiter = guarded
	if w.variant.Mode == rules.Lease {
		o := lease.Options{TTL: w.scenario.LeaseTTL, Members: n.members, Clock: n.host}
		if w.bugs.slowClocks {
			o.Clock = slowClock{n.host}
		}
		if n.lease, err = lease.New(guarded, o); err != nil {
			return nil, err
		}
		limiter = n.lease
	}
	if w.scenario.Regions == nil {
		return limiter, nil
	}
	return w.regionLimiter(n, limiter)
}

// stopNode ends a node as a crash does: the node sends no last message to other nodes.
func (w *world) stopNode(slot int) error {
	n := w.nodes[slot]
	if n == nil {
		return nil
	}
	n.host.Crash()
	w.nodes[slot] = nil
	delete(w.byName, n.host.Name)
	w.addLive(n.region, -1)
	return n.release()
}

// release ends the goroutines that the limiters of a crashed node have started outside of virtual time.
func (n *node) release() error {
	var errs []error
	if n.gossip != nil {
		n.port.closed = true
		errs = append(errs, n.gossip.Close())
	}
	if n.memory != nil {
		errs = append(errs, n.memory.Close())
	}
	return errors.Join(errs...)
}
