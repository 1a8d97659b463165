package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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
	most      []int64                // by limit: units above it
	excess    map[*request][]int64   // by limit: units above it, of admitted requests that have not ended
	isRight   bool                   // decisions of Redis agree with the oracle
	keys      map[string]counterOf   // the client and the limit of each key
	leased    map[counterOf]int64    // units that Redis has granted and that were neither used nor returned
	leases    map[holder][]heldLease // units that a node may use, if there is one limit
	alone     map[holder][]*definition.Oracle
	last      map[uint64]*request
	levels    map[uint64][]int64 // what remains of each client on each node, some time after the traffic
	right     map[uint64]int64   // what remains by the oracle at that time
	violation string             // the first one
}

// A holder is a node that has units of a client.
type holder struct {
	node   *node
	client uint64
}

// A counterOf is what a client has used of a limit.
type counterOf struct {
	client uint64
	limit  int
}

// A heldLease is units that a node may use until they expire.
type heldLease struct {
	units   int64
	expires time.Duration
}

// newInvariants checks the promises of a world from now on.
func newInvariants(w *world) *invariants {
	s := w.scenario
	i := &invariants{
		world: w, excess: make(map[*request][]int64), keys: make(map[string]counterOf), leased: make(map[counterOf]int64),
		leases: make(map[holder][]heldLease), alone: make(map[holder][]*definition.Oracle), last: make(map[uint64]*request),
	}
	i.isRight = w.variant.Mode == rules.Exact && s.Regions == nil
	for _, l := range w.variant.Limits {
		most := maxExcess(s, w.variant.Mode, l)
		i.most = append(i.most, most)
		i.isRight = i.isRight && most == 0
	}
	w.check, w.judged, w.leased, w.returned = i.check, i.measure, i.grant, i.giveBack
	if w.variant.Mode == rules.Lease {
		i.findKeys()
	}
	return i
}

// findKeys finds out which key belongs to each client.
func (i *invariants) findKeys() {
	w := i.world
	recorder := &keyRecorder{Limiter: w.fallback}
	recorders := map[rules.Consistency]headgate.Limiter{rules.Lease: recorder}
	e, err := engine.New(engine.Config{
		Rules: w.rules, Store: recorder, Local: recorder, Clock: w.loop.NewHost("recorder", 0), Secret: fleetSecret,
		Shared: true, Modes: recorders, Global: recorders,
	})
	if err != nil {
		panic(err) // a violation
	}
	for client := range uint64(w.scenario.Traffic[0].Clients) {
		r := i.request(client)
		r.user = r.userName()
		var v engine.Verdict
		if err := e.DecideWith(context.Background(), r, engine.DecideOptions{HasCost: true, Cost: 1}, &v); err != nil {
			panic(err) // a violation
		}
		for limit, key := range recorder.keys {
			i.keys[key] = counterOf{r.client, limit}
		}
	}
}

// A keyRecorder records the keys of the latest call.
type keyRecorder struct {
	headgate.Limiter
	keys []string
}

// Take implements headgate.Limiter.
func (k *keyRecorder) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	k.keys = []string{c.Key}
	return headgate.Decision{Allowed: true}, nil
}

// TakeAll implements headgate.Limiter.
func (k *keyRecorder) TakeAll(
	_ context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	k.keys = nil
	for i := range checks {
		k.keys = append(k.keys, checks[i].Key)
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
	excess := i.excess[r]
	delete(i.excess, r)
	if !r.degraded && r.allowed && mode != rules.Local {
		for limit, units := range excess {
			if units > i.most[limit] {
				i.violated("%s is %d units above its limit %d, want at most %d", r.user, units, limit, i.most[limit])
			}
		}
	}
	switch {
	case r.degraded:
	case mode == rules.Local:
		i.checkAlone(r)
	case i.isRight && r.executed && r.wrong:
		i.violated("allowed = %v is wrong for %s", r.allowed, r.user)
	}
}

// measure is called after the oracle has judged a decision.
func (i *invariants) measure(r *request, allowed bool) {
	switch {
	case !allowed:
		delete(i.excess, r)
	case len(i.most) == 1:
		i.excess[r] = []int64{r.excess}
	default:
		i.excess[r] = nil
		for limit := range i.world.oracle.all {
			i.excess[r] = append(i.excess[r], i.world.oracle.all[limit].excess)
		}
	}
}

// checkAlone checks a decision of a node that counts alone: it admits exactly what the limit admits by its own clock. So
// all nodes together admit at most the sum.
func (i *invariants) checkAlone(r *request) {
	h := holder{r.node, r.client}
	o := i.alone[h]
	if o == nil {
		for _, l := range i.world.variant.Limits {
			o = append(o, definition.New(l))
		}
		i.alone[h] = o
	}
	now, cost, want := r.node.host.Now().UnixMicro(), int64(r.source.spec.Cost), true
	for _, limit := range o {
		want = limit.Fits(now, cost) && want
	}
	if want != r.allowed {
		i.violated("%s decides %v for %s, want %v", r.node.host.Name, r.allowed, r.user, want)
	}
	if r.allowed {
		for _, limit := range o {
			limit.Force(now, cost)
		}
	}
}

// grant is called when Redis grants units to a node. They expire with the lease, or with the window in which they were
// granted.
func (i *invariants) grant(n *node, c *headgate.Check, units int64, requested time.Duration) {
	s := i.world.scenario
	counter := i.keys[c.Key]
	i.leased[counter] += units
	if len(i.most) > 1 {
		return // the node may use units of the other limit later
	}
	h := holder{n, counter.client}
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
	for limit := range i.most {
		counter := counterOf{r.client, limit}
		if i.leased[counter] -= cost; i.leased[counter] < 0 {
			i.violated("%s has used or returned %d units of limit %d more than Redis has granted", r.user, -i.leased[counter], limit)
		}
	}
	if len(i.most) > 1 {
		return
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
	i.levels, i.right = make(map[uint64][]int64), make(map[uint64]int64)
	for client := range uint64(w.scenario.Traffic[0].Clients) {
		id := i.request(client).client
		i.right[id] = w.oracle.remaining(id, w.micros())
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
		if !countsLikeOracle(i.world.scenario) {
			continue
		}
		// Nodes learn of units when some of them have drained.
		if missing := i.right[client] - least - drained(i.world.scenario); missing > allowed {
			i.violated("nodes have units of client %d that it did not get: %v remain, want %d", client, list, i.right[client])
		}
	}
	for _, r := range i.last {
		if !r.allowed {
			i.violated("%s is denied a second after its last request", r.user)
		}
	}
}
