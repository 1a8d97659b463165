package sim

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/sim/scenario"
)

// To replay a failing seed: go test ./server/sim -run TestSoakSweep -sim.seed=SEED
var oneSeed = flag.Int("sim.seed", -1, "seed to replay alone")

var sweepModes = []string{"exact", "lease", "async", "gossip", "local"}

// randomScenario returns a scenario that depends on a seed alone. Requests over an unreachable store are denied, and no
// data is lost, so that the bound of the mode holds.
func randomScenario(t *testing.T, seed int) *scenario.Scenario {
	t.Helper()
	r := rand.New(rand.NewPCG(uint64(seed), 99))
	if hasRegions(seed) {
		return randomRegions(t, seed, r)
	}
	nodes, mode := 2+r.IntN(4), sweepModes[seed%len(sweepModes)]
	count := 5 + r.IntN(300)
	limits := fmt.Sprintf("%d/s", count)
	if mode == "exact" && r.IntN(2) == 0 {
		limits += fmt.Sprintf(", %d/2s", count*3/2) // a request needs both
	}
	if mode == "async" || mode == "gossip" {
		limits += []string{"", " gcra", " fixed-window"}[r.IntN(3)]
	}
	more := rand.New(rand.NewPCG(uint64(seed), 100)) // of what was added later, so that seeds keep their other figures
	duration, settings, bursts, faults := 4500*time.Millisecond, "", "", ""
	if (mode == "async" || mode == "gossip") && more.IntN(2) == 0 {
		duration, faults = 20*time.Second, outages(mode, more) // debts are repaid
	}
	if mode == "lease" {
		settings = fmt.Sprintf("lease_ttl: %dms", []int{20, 50, 100}[more.IntN(3)])
		if more.IntN(2) == 0 { // units of a lease are left over, and the bucket is full soon
			limits += fmt.Sprintf(" burst %d", max(1, count/(5+more.IntN(20))))
			bursts = fmt.Sprintf(", on: %dms, off: %dms", 20+more.IntN(200), 20+more.IntN(300))
		}
	}
	text := fmt.Sprintf(`
seed: %d
duration: %dms
nodes: %d
limits: [%s]
modes: [%s]
on_failure: closed
redis: { shards: %d }
network: { delay: %dus, distribution: exponential }
%s
traffic: [{ rate: %d, clients: 3, until: 2500ms%s }]
faults:
`, seed, duration.Milliseconds(), nodes, limits, mode, 1+r.IntN(3), 100+r.IntN(900), settings, 3*count*(1+r.IntN(6)), bursts)
	text += fmt.Sprintf("  - { kind: join, at: %dms, count: 1 }\n", 200+r.IntN(500)) + faults
	if mode == "exact" || mode == "lease" {
		kinds := []string{
			"kind: crash, nodes: [0]", "kind: partition, nodes: [1]", "kind: lossy, loss: 20",
			"kind: slow, delay: 15ms", "kind: redis-down, shard: 0",
		}
		for range r.IntN(4) {
			text += fmt.Sprintf("  - { %s, at: %dms, for: %dms }\n", kinds[r.IntN(len(kinds))], 500+r.IntN(1500),
				50+r.IntN(400))
		}
	}
	return parseRandom(t, seed, text)
}

// outages returns faults that keep updates between nodes back. They end before the traffic does.
func outages(mode string, r *rand.Rand) (faults string) {
	kinds := []string{"kind: crash, nodes: [0]", "kind: partition, nodes: [1]", "kind: slow, delay: 15ms"}
	if mode == "async" {
		kinds = append(kinds, "kind: redis-down, shard: 0", "kind: failover, shard: 0", "kind: lossy, loss: 20")
	}
	for range 1 + r.IntN(2) {
		faults += fmt.Sprintf("  - { %s, at: %dms, for: %dms }\n", kinds[r.IntN(len(kinds))], 500+r.IntN(1300), 50+r.IntN(300))
	}
	return faults
}

func parseRandom(t *testing.T, seed int, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("random.yaml", []byte(text))
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	return s
}

// maxExcess returns by how many units a client may be above its limit in a mode.
func maxExcess(s *scenario.Scenario, v scenario.Variant) int64 {
	l := v.Limits[0]
	perSecond := float64(l.Count) / l.Period.Seconds()
	others := float64(s.Nodes) // one of which joins
	if s.Regions != nil {
		return maxRegionExcess(s, v)
	}
	switch v.Mode.String() {
	case "exact":
		return 0
	case "lease":
		return int64(perSecond*s.LeaseTTL.Seconds()) + 1
	case "local":
		return int64(others*(float64(l.Capacity())+perSecond*s.Duration.Seconds())) + 1
	default:
		// Updates are as old as an interval and two delays. So many requests of one client come meanwhile, and in the
		// worst of many such times three standard deviations more. During a fault, updates grow older.
		age := 100*time.Millisecond + 2**s.Network.Delay
		for _, f := range s.Faults {
			if f.Kind != scenario.Join {
				age += f.For + 2*f.Delay + outageRecovery
			}
		}
		return asyncExcess(s, l, others, age)
	}
}

// outageRecovery is how long nodes take to exchange updates again after a fault.
const outageRecovery = 300 * time.Millisecond

// asyncExcess returns the bound of the mode async, for a number of peers whose updates are of an age.
func asyncExcess(s *scenario.Scenario, l headgate.Limit, peers float64, age time.Duration) int64 {
	perSecond := float64(l.Count) / l.Period.Seconds()
	arrivals := float64(s.Traffic[0].Rate) / float64(s.Traffic[0].Clients) * age.Seconds()
	return int64(min(peers*(float64(l.Capacity())+perSecond*age.Seconds()), arrivals+3*math.Sqrt(arrivals))) + 2
}

// sweep runs the scenario of a seed and returns the first violation of an invariant, or "".
func sweep(t *testing.T, seed int, planted bugs) (violation string) {
	t.Helper()
	return violationOf(t, randomScenario(t, seed), planted)
}

// violationOf runs a scenario and returns the first violation of an invariant, or "".
func violationOf(t *testing.T, s *scenario.Scenario, planted bugs) string {
	t.Helper()
	v := s.Variants()[0]
	w, err := newPlantedWorld(s, v, 0, planted)
	if err != nil {
		t.Fatalf("seed %d: %v", s.Seed, err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Errorf("seed %d: close: %v", s.Seed, err)
		}
	}()
	i := &invariants{world: w, most: maxExcess(s, v), last: make(map[uint64]*request), leases: make(map[*node][]heldLease)}
	w.check, w.leased = i.check, i.grant
	w.startTraffic(nil)
	w.startFaults()
	if mode := v.Mode.String(); mode == "async" || mode == "gossip" {
		w.loop.After(s.Traffic[0].Until+convergesAfter(s), i.readLevels)
		w.loop.After(s.Traffic[0].Until+convergesAfter(s)+ledgerLookup, i.readLevels)
	}
	// After the faults, a client that has not sent for a second, and has repaid its debt, is admitted. The decision may
	// wait for a lookup.
	w.loop.After(s.Duration-600*time.Millisecond, func() {
		for client := range uint64(s.Traffic[0].Clients) {
			w.arrive(i.request(client))
		}
	})
	for w.loop.Step(s.Duration) && i.violation == "" && w.err == nil {
	}
	if w.err != nil {
		return w.err.Error()
	}
	i.atEnd()
	return i.violation
}

func TestSoakSweepHoldsInvariants(t *testing.T) {
	t.Parallel()
	first, last := 1, 40
	if os.Getenv("HEADGATE_SOAK") == "1" {
		last = 10_000
	}
	if *oneSeed >= 0 {
		first, last = *oneSeed, *oneSeed
	}
	for seed := first; seed <= last; seed++ {
		if violation := sweep(t, seed, bugs{}); violation != "" {
			t.Errorf("seed %d: %s\nreplay it: go test ./server/sim -run TestSoakSweep -sim.seed=%d\nas small as possible: %s",
				seed, violation, seed, describe(shrink(t, randomScenario(t, seed), bugs{})))
		}
	}
}

// Two requests for the same two keys once woke each other forever, each with the turn that the other released.
func TestRequestsDoNotWakeEachOtherForever(t *testing.T) {
	t.Parallel()
	if violation := sweep(t, 9435, bugs{}); violation != "" {
		t.Error(violation)
	}
}

func TestSweepFindsPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, mode string
		planted    bugs
	}{
		{"a lost update", "exact", bugs{loseUpdates: true}},
		{"a lease used after its expiry", "lease", bugs{longLeases: true}},
		{"a new node that does not learn", "async", bugs{deafNewcomer: true}},
		{"a denial that takes units", "exact", bugs{partialTakes: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := 1; seed <= 1000; seed++ {
				if sweepModes[seed%len(sweepModes)] != c.mode {
					continue
				}
				if violation := sweep(t, seed, c.planted); violation != "" {
					small := shrink(t, randomScenario(t, seed), c.planted)
					if violationOf(t, small, c.planted) == "" || violationOf(t, small, bugs{}) != "" {
						t.Errorf("the smaller scenario %s does not show the bug, or another one", describe(small))
					}
					t.Logf("found by seed %d: %s\nsmaller: %s", seed, violation, describe(small))
					return
				}
			}
			t.Error("not found within 1000 seeds")
		})
	}
}
