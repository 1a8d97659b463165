package sim

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/fleet/lease"
	"github.com/headgate/headgate/server/sim/scenario"
)

// invariants are the promises that are checked in random scenarios.
type invariants struct {
	world     *world
	most      int64 // units above the limit
	leased    int64 // units of leases that were used
	leases    map[*node][]heldLease
	last      map[uint64]*request
	levels    map[uint64][]int64 // what remains of each client on each node, some time after the traffic
	violation string             // the first one
}

// ledgerLookup is longer than a node waits for what its peers consumed of a key.
const ledgerLookup = 300 * time.Millisecond

// convergesAfter returns how long after the last request all nodes agree.
func convergesAfter(s *scenario.Scenario) time.Duration {
	if s.Regions != nil {
		return 3 * regionUpdateAge(s)
	}
	return 300 * time.Millisecond
}

// maxDisagreement returns by how many units nodes may differ then. Levels are rounded, and the time that an update is in
// transit between regions, or during an outage, is not known. After an outage, a window also has the debt of those
// before it, as far as a node knows of that.
func maxDisagreement(s *scenario.Scenario) int64 {
	l := s.Limits[0]
	perSecond := float64(l.Count) / l.Period.Seconds()
	switch {
	case s.Regions != nil:
		return 2 + int64(4*s.Regions.Delay.Seconds()*perSecond)
	case !hasOutage(s):
		return 2
	case l.Algorithm == headgate.FixedWindow:
		return math.MaxInt64
	default:
		return 2 + int64(outageDrain.Seconds()*perSecond)
	}
}

// outageDrain is the time in which units drain of which nodes do not know when they were used.
const outageDrain = 200 * time.Millisecond

// hasOutage reports whether a fault keeps updates back.
func hasOutage(s *scenario.Scenario) bool {
	return slices.ContainsFunc(s.Faults, func(f scenario.Fault) bool { return f.Kind != scenario.Join })
}

func (i *invariants) violated(format string, args ...any) {
	if i.violation == "" {
		i.violation = fmt.Sprintf("%s at %v: ", i.world.variant.Mode, i.world.loop.Now()) + fmt.Sprintf(format, args...)
	}
}

// check is called after every request: nobody is above the bound of the mode, leases hand out no more than was granted,
// and a decision of Redis is right. A denial that took units of one of two limits would make a later one wrong.
func (i *invariants) check(r *request) {
	i.last[r.client] = r
	mode := i.world.variant.Mode.String()
	if mode == "lease" && r.allowed && !r.executed && !r.degraded {
		i.leased += int64(r.source.spec.Cost)
		i.useLease(r)
	}
	switch {
	case r.degraded:
	case r.allowed && r.excess > i.most:
		i.violated("%s is %d units above its limit, want at most %d", r.user, r.excess, i.most)
	case mode == "lease" && i.leased > i.world.result.granted:
		i.violated("%d units were used, but only %d granted", i.leased, i.world.result.granted)
	case mode == "exact" && i.world.scenario.Regions == nil && r.executed && r.wrong:
		i.violated("allowed = %v is wrong for %s", r.allowed, r.user)
	}
}

// A heldLease is units that a node has got and may use for a time, of any client.
type heldLease struct {
	units   int64
	expires time.Duration
}

// grant is called after every grant to a node.
func (i *invariants) grant(n *node, units int64, requested time.Duration) {
	ttl := cmp.Or(i.world.scenario.LeaseTTL, lease.DefaultTTL)
	i.leases[n] = append(i.leases[n], heldLease{units, requested + ttl})
	slices.SortStableFunc(i.leases[n], func(a, b heldLease) int { return cmp.Compare(a.expires, b.expires) })
}

// useLease checks that a node has units that have not expired. It uses those first that expire first.
func (i *invariants) useLease(r *request) {
	cost := int64(r.source.spec.Cost)
	held := i.leases[r.node]
	for len(held) > 0 && (held[0].units == 0 || held[0].expires < r.endedAt) {
		held = held[1:]
	}
	for j := range held {
		used := min(cost, held[j].units)
		held[j].units -= used
		cost -= used
	}
	i.leases[r.node] = held
	if cost > 0 {
		i.violated("%s used units of a lease that has expired", r.node.host.Name)
	}
}

// request returns a request of a client.
func (i *invariants) request(client uint64) *request {
	from := &source{world: i.world, spec: &i.world.scenario.Traffic[0]}
	return &request{source: from, client: hashKey(from.spec.Prefix)<<32 + client}
}

// readLevels reads what remains of each client on each node, without taking anything. A node on which the key was unused
// for a while looks it up after the first decision, so the second reading counts.
func (i *invariants) readLevels() {
	w := i.world
	i.levels = make(map[uint64][]int64)
	for client := range uint64(w.scenario.Traffic[0].Clients) {
		for _, n := range w.nodes {
			if n == nil {
				continue
			}
			r := i.request(client)
			r.user = r.userName()
			n.host.Run(func() {
				var v engine.Verdict
				if err := n.engine.DecideWith(context.Background(), r, engine.DecideOptions{HasCost: true}, &v); err != nil {
					w.fail(fmt.Errorf("read a level: %w", err))
					return
				}
				i.levels[r.client] = append(i.levels[r.client], v.Decision.Remaining)
			})
		}
	}
}

// atEnd checks that counters converged, and that nobody is locked out.
func (i *invariants) atEnd() {
	allowed := maxDisagreement(i.world.scenario)
	for client, list := range i.levels {
		least, most := list[0], list[0]
		for _, n := range list {
			least, most = min(least, n), max(most, n)
		}
		if most-least > allowed {
			i.violated("nodes do not agree on client %d: %v remain, want a difference of at most %d", client, list, allowed)
		}
	}
	for _, r := range i.last {
		if !r.allowed {
			i.violated("%s is denied a second after its last request", r.user)
		}
	}
}
