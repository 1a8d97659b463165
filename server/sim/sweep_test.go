package sim

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

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
	nodes, mode := 2+r.IntN(4), sweepModes[seed%len(sweepModes)]
	count := 5 + r.IntN(300)
	text := fmt.Sprintf(`
seed: %d
duration: 4s
nodes: %d
limits: [%d/s]
modes: [%s]
on_failure: closed
redis: { shards: %d }
network: { delay: %dus, distribution: exponential }
traffic: [{ rate: %d, clients: 3, until: 2500ms }]
faults:
`, seed, nodes, count, mode, 1+r.IntN(3), 100+r.IntN(900), 3*count*(1+r.IntN(6)))
	text += fmt.Sprintf("  - { kind: join, at: %dms, count: 1 }\n", 200+r.IntN(500))
	if mode == "exact" || mode == "lease" { // the others' bounds depend on the age of updates
		kinds := []string{
			"kind: crash, nodes: [0]", "kind: partition, nodes: [1]", "kind: lossy, loss: 20",
			"kind: slow, delay: 15ms", "kind: redis-down, shard: 0",
		}
		for range r.IntN(4) {
			text += fmt.Sprintf("  - { %s, at: %dms, for: %dms }\n", kinds[r.IntN(len(kinds))], 500+r.IntN(1500),
				50+r.IntN(400))
		}
	}
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
	switch v.Mode.String() {
	case "exact":
		return 0
	case "lease":
		return int64(perSecond*0.1) + 1
	case "local":
		return int64(others*(float64(l.Capacity())+perSecond*s.Duration.Seconds())) + 1
	default:
		// Updates are as old as an interval and two delays. So many requests of one client come meanwhile, and in the
		// worst of many such times three standard deviations more.
		age := (100*time.Millisecond + 2**s.Network.Delay).Seconds()
		arrivals := float64(s.Traffic[0].Rate) / 3 * age
		return int64(min(others*(float64(l.Capacity())+perSecond*age), arrivals+3*math.Sqrt(arrivals))) + 2
	}
}

// sweep runs the scenario of a seed and returns the first violation of an invariant, or "".
func sweep(t *testing.T, seed int, planted bugs) (violation string) {
	t.Helper()
	s := randomScenario(t, seed)
	v := s.Variants()[0]
	w, err := newPlantedWorld(s, v, planted)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Errorf("seed %d: close: %v", seed, err)
		}
	}()
	most, leased := maxExcess(s, v), int64(0)
	last := make(map[uint64]*request)
	w.check = func(r *request) {
		last[r.client] = r
		if r.allowed && !r.executed && !r.degraded {
			leased += int64(r.source.spec.Cost)
		}
		switch {
		case violation != "" || r.degraded:
		case r.allowed && r.excess > most:
			violation = fmt.Sprintf("%s at %v: %s is %d units above its limit, want at most %d", v.Mode, w.loop.Now(),
				r.user, r.excess, most)
		case v.Mode.String() == "lease" && leased > w.result.granted:
			violation = fmt.Sprintf("lease at %v: %d units were used, but only %d granted", w.loop.Now(), leased,
				w.result.granted)
		}
	}
	w.startTraffic()
	w.startFaults()
	// After the faults, a client that has not sent for a second is admitted.
	w.loop.After(3900*time.Millisecond, func() {
		for client := range uint64(3) {
			from := &source{world: w, spec: &s.Traffic[0]}
			w.arrive(&request{source: from, client: hashKey(from.spec.Prefix)<<32 + client})
		}
	})
	for w.loop.Step(s.Duration) && violation == "" && w.failed == nil {
	}
	if w.failed != nil {
		return w.failed.Error()
	}
	for _, r := range last {
		if violation == "" && !r.allowed {
			violation = fmt.Sprintf("%s: %s is denied a second after its last request", v.Mode, r.user)
		}
	}
	return violation
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
			t.Errorf("seed %d: %s\nreplay it: go test ./server/sim -run TestSoakSweep -sim.seed=%d", seed, violation, seed)
		}
	}
}

func TestSweepFindsPlantedBugs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, mode string
		planted    bugs
	}{
		{"a lost update", "exact", bugs{loseUpdates: true}},
		{"a lease used after its expiry", "lease", bugs{frozenLeases: true}},
		{"a new node that does not learn", "async", bugs{deafNewcomer: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := 1; seed <= 1000; seed++ {
				if sweepModes[seed%len(sweepModes)] != c.mode {
					continue
				}
				if violation := sweep(t, seed, c.planted); violation != "" {
					t.Logf("found by seed %d: %s", seed, violation)
					return
				}
			}
			t.Error("not found within 1000 seeds")
		})
	}
}
