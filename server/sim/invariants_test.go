package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/server/sim/scenario"
)

// invariants are the promises that are checked in random scenarios.
type invariants struct {
	world     *world
	most      int64 // units above the limit
	leased    int64 // units of leases that were used
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
// transit between regions is not known.
func maxDisagreement(s *scenario.Scenario) int64 {
	if s.Regions == nil {
		return 2
	}
	l := s.Limits[0]
	return 2 + int64(4*s.Regions.Delay.Seconds()*float64(l.Count)/l.Period.Seconds())
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
	if r.allowed && !r.executed && !r.degraded {
		i.leased += int64(r.source.spec.Cost)
	}
	mode := i.world.variant.Mode.String()
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
