package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/match"
	"github.com/headgate/headgate/server/sim/scenario"
	"github.com/headgate/headgate/server/sim/virtual"
)

// A world is one run of a variant of a scenario.
type world struct {
	scenario *scenario.Scenario
	variant  scenario.Variant
	group    int // number of the simulated group of clients; see scenario.Groups
	loop     *virtual.Loop
	network  *network
	between  *network // network between regions; nil if there is only one region
	redis    []*redisServer
	oracle   *oracle
	result   *Result

	rules        *match.Set
	fallback     headgate.Limiter // the local store of nodes that have no counters in their own memory
	nodes        []*node          // by slot; nil while a node is down
	crashes      []int            // by slot: the number of faults that keep the node down
	clocks       []time.Duration  // by slot: the time by which the clock of the node is ahead
	skew         *rand.Rand
	byName       map[string]*node
	all          nodeGroup
	regions      []nodeGroup
	incarnations uint64
	nodeSeed     uint64
	balancer     *rand.Rand
	verdicts     []*engine.Verdict
	replays      []*replay
	delivered    []*delivery // packets that have arrived
	err          error       // the first error of an event; it ends the simulation

	// check is called after every request, and judged after the oracle has judged a decision, for tests.
	check  func(*request)
	judged func(r *request, allowed bool)
	// leased is called after every grant of units to a node, and returned after a node has returned some, for tests.
	leased   func(n *node, check *headgate.Check, units int64, requested time.Duration)
	returned func(check *headgate.Check, units int64)
	// bugs are the bugs that a test has planted, to prove that the simulation finds them.
	bugs bugs
}

// ruleID is the rule of a simulation.
const ruleID = "simulated"

// newWorld starts the nodes of a variant, for one group of clients. The caller must close the world.
func newWorld(s *scenario.Scenario, v scenario.Variant, group int) (*world, error) {
	return newPlantedWorld(s, v, group, bugs{})
}

// newPlantedWorld does the same as newWorld, and also plants bugs.
func newPlantedWorld(s *scenario.Scenario, v scenario.Variant, group int, planted bugs) (*world, error) {
	seed := uint64(s.Seed) ^ uint64(group)<<48
	w := &world{
		scenario: s, variant: v, group: group, loop: virtual.NewLoop(),
		network: newNetwork(s.Network, rand.New(rand.NewPCG(seed, 1))),
		result:  newResult(s, v), byName: make(map[string]*node), nodeSeed: seed, balancer: rand.New(rand.NewPCG(seed, 2)),
		bugs: planted,
	}
	w.connectRegions()
	w.redis = newRedis(w)
	if err := w.start(); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) start() (err error) {
	if w.oracle, err = newOracle(w.variant.Limits, w.scenario.JudgeBy); err != nil {
		return err
	}
	rule := rules.Rule{
		ID: ruleID, Key: []headgate.Attribute{{Kind: headgate.AttrUser}}, Consistency: w.variant.Mode,
		OnFailure: w.scenario.OnFailure,
	}
	if w.scenario.Regions != nil {
		rule.Scope = rules.ScopeGlobal
	}
	for i, l := range w.variant.Limits {
		rule.Limits = append(rule.Limits, rules.Limit{Name: "limit-" + strconv.Itoa(i), Limit: l})
	}
	if w.rules, err = match.Compile([]rules.Rule{rule}); err != nil {
		return err
	}
	if w.fallback, err = memstore.New(memstore.Options{Now: w.loop.Time}); err != nil {
		return err
	}
	w.skew = rand.New(rand.NewPCG(uint64(w.scenario.Seed), 3)) // the same in all groups
	for i := range w.scenario.AllNodes() {
		if err := w.startNode(w.addSlot(i / w.scenario.Nodes)); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) close() error {
	var errs []error
	for slot := range w.nodes {
		errs = append(errs, w.stopNode(slot))
	}
	if store, ok := w.fallback.(*memstore.Store); ok && store != nil {
		errs = append(errs, store.Close())
	}
	for _, r := range w.replays {
		errs = append(errs, r.reader.Close())
	}
	w.loop.Close()
	return errors.Join(errs...)
}

// fail ends the simulation with an error. It does nothing if err is nil.
func (w *world) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// A request is one attempt of a client. It is the subject that the engine decides.
type request struct {
	source  *source
	client  uint64
	name    string // name of the client in a log; "" for generated traffic
	user    string
	attempt int
	node    *node

	executed  bool // Redis has decided the request
	counted   bool // the oracle has counted the request as admitted
	wrong     bool // the oracle would have decided otherwise
	allowed   bool
	degraded  bool
	excess    int64 // number of units by which the client is above its limit after the request
	startedAt time.Duration
	endedAt   time.Duration
}

// Get implements rules.Subject.
func (r *request) Get(a headgate.Attribute) (string, bool) {
	if a.Kind == headgate.AttrUser {
		return r.user, true
	}
	return "", false
}

// simulates reports whether a client is in the sample and in the group of this world.
func (w *world) simulates(client uint64) bool {
	n, groups := uint64(w.scenario.SampleOneIn), uint64(w.scenario.Groups)
	if n == 1 && groups == 1 {
		return true
	}
	hash := mix(client)
	return hash%n == 0 && hash/n%groups == uint64(w.group)
}

// mix hashes a number. All bits of the number affect all bits of the hash.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// arrive sends a request to a node.
func (w *world) arrive(r *request) {
	w.result.count(w.loop.Now(), &w.result.Requests, seriesRequests)
	if r.node = w.pick(r); r.node == nil {
		w.result.Unserved++
		return
	}
	r.user = r.userName()
	r.startedAt = w.loop.Now()
	r.node.inFlight++
	r.node.host.Run(func() { w.serve(r) })
}

// userName returns the name of the client.
func (r *request) userName() string {
	if r.name != "" {
		return r.source.spec.Prefix + "-" + r.name
	}
	var buffer [64]byte
	name := append(append(buffer[:0], r.source.spec.Prefix...), '-')
	return string(strconv.AppendUint(name, r.client, 36))
}

// serve decides a request. It runs in a goroutine of the request's node.
func (w *world) serve(r *request) {
	w.loop.SetData(r)
	var v *engine.Verdict
	if last := len(w.verdicts) - 1; last >= 0 {
		v = w.verdicts[last]
		w.verdicts = w.verdicts[:last]
	} else {
		v = new(engine.Verdict)
	}
	err := r.node.engine.DecideWith(context.Background(), r, engine.DecideOptions{Cost: int64(r.source.spec.Cost), HasCost: true}, v)
	if err != nil {
		w.fail(fmt.Errorf("decide a request: %w", err))
		return
	}
	r.node.inFlight--
	r.endedAt = w.loop.Now()
	r.allowed, r.degraded = v.Action.Passes(), v.Degraded
	retryAfter := v.RetryAfter
	w.verdicts = append(w.verdicts, v)
	w.judge(r)
	w.result.record(r)
	if w.check != nil {
		w.check(r)
	}
	if !r.allowed {
		w.retry(r, retryAfter)
	}
}

// micros returns the exact time in µs since 1970. The clocks of nodes may differ from it.
func (w *world) micros() int64 { return w.loop.Time().UnixMicro() }

// executed lets the oracle judge a decision of Redis about the request of the current goroutine. redisClient calls it
// at the time of the decision, which is before the node gets the response.
func (w *world) executed(allowed bool, err error) {
	r, ok := w.loop.Data().(*request)
	if !ok || r == nil || err != nil {
		return
	}
	r.executed = true
	w.consult(r, allowed)
}

// consult lets the oracle judge a decision, and count the units of an admitted request.
func (w *world) consult(r *request, allowed bool) {
	r.wrong, r.excess = w.oracle.judge(r.client, w.micros(), int64(r.source.spec.Cost), allowed)
	r.counted = allowed
	if w.judged != nil {
		w.judged(r, allowed)
	}
}

// judge lets the oracle judge the decision of a node, except if it is the decision of Redis, which executed has judged.
// If the response of Redis was lost, a policy has decided. Then judge does not count units again that Redis has
// admitted.
func (w *world) judge(r *request) {
	switch {
	case r.executed && !r.degraded:
	case r.executed && r.counted:
		r.wrong = r.wrong || !r.allowed
	default:
		w.consult(r, r.allowed)
	}
}

// granted counts units that Redis has granted to a node. requested is the time of the node's request.
func (w *world) granted(n *node, check *headgate.Check, units int64, requested time.Duration) {
	if w.leased != nil {
		w.leased(n, check, units, requested)
	}
}

// retry lets the client repeat a denied request.
func (w *world) retry(r *request, retryAfter time.Duration) {
	p := r.source.spec.Retry
	if p == nil || r.attempt+1 >= p.Attempts {
		return
	}
	wait := p.Wait
	if p.Honour {
		if retryAfter == headgate.Never {
			return
		}
		wait = (retryAfter + time.Second - 1).Truncate(time.Second) // the header Retry-After has whole seconds
		wait = max(wait, time.Second)
	}
	again := &request{source: r.source, client: r.client, name: r.name, attempt: r.attempt + 1}
	w.loop.After(wait, func() {
		w.result.Retries++
		w.arrive(again)
	})
}
