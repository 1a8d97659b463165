package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	definition "github.com/headgate/headgate/internal/oracle"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/fleet/lease"
	"github.com/headgate/headgate/server/sim/scenario"
)

// invariants are the promises that are checked in random scenarios.
type invariants struct {
	world     *world
	most      int64                  // units above the limit
	isRight   bool                   // decisions of Redis agree with the oracle
	keys      map[string]uint64      // the client of each key
	leased    map[uint64]int64       // by client: units that Redis has granted and that were neither used nor returned
	leases    map[holder][]heldLease // units that a node may use
	alone     map[holder]*definition.Oracle
	last      map[uint64]*request
	levels    map[uint64][]int64 // what remains of each client on each node, some time after the traffic
	violation string             // the first one
}

// A holder is a node that has units of a client.
type holder struct {
	node   *node
	client uint64
}

// A heldLease is units that a node may use until they expire.
type heldLease struct {
	units   int64
	expires time.Duration
}

// newInvariants checks the promises of a world from now on.
func newInvariants(t *testing.T, w *world) *invariants {
	t.Helper()
	s := w.scenario
	i := &invariants{
		world: w, most: maxExcess(s, w.variant), keys: make(map[string]uint64), leased: make(map[uint64]int64),
		leases: make(map[holder][]heldLease), alone: make(map[holder]*definition.Oracle), last: make(map[uint64]*request),
	}
	i.isRight = w.variant.Mode == rules.Exact && s.Regions == nil && i.most == 0
	w.check, w.leased, w.returned = i.check, i.grant, i.giveBack
	if w.variant.Mode == rules.Lease {
		i.findKeys(t)
	}
	return i
}

// findKeys finds out which key belongs to each client.
func (i *invariants) findKeys(t *testing.T) {
	t.Helper()
	w := i.world
	recorder := &keyRecorder{Limiter: w.fallback}
	recorders := map[rules.Consistency]headgate.Limiter{rules.Lease: recorder}
	e, err := engine.New(engine.Config{
		Rules: w.rules, Store: recorder, Local: recorder, Clock: w.loop.NewHost("recorder", 0), Secret: fleetSecret,
		Shared: true, Modes: recorders, Global: recorders,
	})
	if err != nil {
		t.Fatal(err)
	}
	for client := range uint64(w.scenario.Traffic[0].Clients) {
		r := i.request(client)
		r.user = r.userName()
		var v engine.Verdict
		if err := e.DecideWith(context.Background(), r, engine.DecideOptions{HasCost: true, Cost: 1}, &v); err != nil {
			t.Fatal(err)
		}
		i.keys[recorder.key] = r.client
	}
}

// A keyRecorder records the key of the latest check.
type keyRecorder struct {
	headgate.Limiter
	key string
}

// Take implements headgate.Limiter.
func (k *keyRecorder) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	k.key = c.Key
	return headgate.Decision{Allowed: true}, nil
}

// TakeAll implements headgate.Limiter.
func (k *keyRecorder) TakeAll(
	_ context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	for i := range checks {
		k.key = checks[i].Key
		dst = append(dst, headgate.Decision{Allowed: true})
	}
	return dst, nil
}

func (i *invariants) violated(format string, args ...any) {
	if i.violation == "" {
		i.violation = fmt.Sprintf("%s at %v: ", i.world.variant.Mode, i.world.loop.Now()) + fmt.Sprintf(format, args...)
	}
}

// check is called after every request. A denial that took units of one of two limits would make a later decision wrong.
func (i *invariants) check(r *request) {
	i.last[r.client] = r
	mode := i.world.variant.Mode
	if mode == rules.Lease && r.allowed && !r.executed && !r.degraded {
		i.useLease(r)
	}
	switch {
	case r.degraded:
	case mode == rules.Local:
		i.checkAlone(r)
	case r.allowed && r.excess > i.most:
		i.violated("%s is %d units above its limit, want at most %d", r.user, r.excess, i.most)
	case i.isRight && r.executed && r.wrong:
		i.violated("allowed = %v is wrong for %s", r.allowed, r.user)
	}
}

// checkAlone checks a decision of a node that counts alone: it admits exactly what the limit admits by its own clock. So
// all nodes together admit at most the sum.
func (i *invariants) checkAlone(r *request) {
	h := holder{r.node, r.client}
	o := i.alone[h]
	if o == nil {
		o = definition.New(i.world.variant.Limits[0])
		i.alone[h] = o
	}
	now, cost := r.node.host.Now().UnixMicro(), int64(r.source.spec.Cost)
	if want := o.Fits(now, cost); want != r.allowed {
		i.violated("%s decides %v for %s, want %v", r.node.host.Name, r.allowed, r.user, want)
	}
	if r.allowed {
		o.Force(now, cost)
	}
}

// grant is called when Redis grants units to a node. They expire with the lease, or with the window in which they were
// granted.
func (i *invariants) grant(n *node, c *headgate.Check, units int64, requested time.Duration) {
	s := i.world.scenario
	h := holder{n, i.keys[c.Key]}
	i.leased[h.client] += units
	expires := requested + cmp.Or(s.LeaseTTL, lease.DefaultTTL)
	if hasWindows(c.Limit) && !s.HasFault(scenario.RedisClock) {
		now := i.world.loop.Now() // windows begin at whole periods
		expires = min(expires, now.Truncate(c.Limit.Period)+c.Limit.Period)
	}
	i.leases[h] = append(i.leases[h], heldLease{units, expires})
	slices.SortStableFunc(i.leases[h], func(a, b heldLease) int { return cmp.Compare(a.expires, b.expires) })
}

// giveBack is called when a node returns units. If there are regions, a node also returns units that it has got without
// a lease, so these do not count.
func (i *invariants) giveBack(c *headgate.Check, units int64) {
	if i.world.scenario.Regions == nil {
		i.leased[i.keys[c.Key]] -= units
	}
}

// useLease checks that the client has got the units, and that the node has units that have not expired. The node uses
// those first that expire first.
func (i *invariants) useLease(r *request) {
	cost, h := int64(r.source.spec.Cost), holder{r.node, r.client}
	if i.leased[r.client] -= cost; i.leased[r.client] < 0 {
		i.violated("%s has used or returned %d units more than Redis has granted", r.user, -i.leased[r.client])
	}
	held := i.leases[h]
	for len(held) > 0 && (held[0].units == 0 || held[0].expires < r.endedAt) {
		held = held[1:]
	}
	for j := range held {
		used := min(cost, held[j].units)
		held[j].units -= used
		cost -= used
	}
	i.leases[h] = held
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
		least, most := slices.Min(list), slices.Max(list)
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
