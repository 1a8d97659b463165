package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

var sweepModes = []string{"exact", "lease", "async", "gossip", "local"}

// modeOf returns the mode of the scenario of a seed.
func modeOf(seed int) string { return sweepModes[seed%len(sweepModes)] }

// hasRegions reports whether the scenario of a seed has several regions.
func hasRegions(seed int) bool {
	return modeOf(seed) != "gossip" && modeOf(seed) != "local" && seed/len(sweepModes)%4 == 0
}

// allAlgorithms can be counted by one store, and sharedAlgorithms also by several.
var (
	sharedAlgorithms = []string{"token-bucket", "gcra", "fixed-window", "sliding-window"}
	allAlgorithms    = append([]string{"leaky-bucket", "sliding-log", "sliding-buckets"}, sharedAlgorithms...)
)

// A draft is a random scenario in the making.
type draft struct {
	*rand.Rand
	mode    string
	regions int // 0 if there are no regions
	nodes   int // in each region
	shards  int
	until   int // end of the traffic, in ms
	joined  int // number of nodes that join
	faults  []string
	lasts   time.Duration // in virtual time, until debts are repaid
}

// randomScenario returns a scenario that depends on a seed alone. Requests over an unreachable store are denied, so that
// the bound of the mode holds.
func randomScenario(t *testing.T, seed int) *scenario.Scenario {
	t.Helper()
	d := &draft{Rand: rand.New(rand.NewPCG(uint64(seed), 99)), mode: modeOf(seed)}
	d.nodes, d.shards, d.until = 2+d.IntN(4), 1+d.IntN(3), 2000+d.IntN(1000)
	regions := ""
	if hasRegions(seed) {
		d.nodes, d.regions = 1+d.IntN(3), 2+d.IntN(2)
		regions = fmt.Sprintf("regions: { count: %d, delay: %dms, distribution: uniform, sync_interval: %dms }\n", d.regions,
			1+d.IntN(30), 100+d.IntN(400))
	}
	limits, traffic := d.limits()
	d.addFaults()
	text := fmt.Sprintf(`
seed: %d
duration: %v
nodes: %d
modes: [%s]
on_failure: closed
redis: { shards: %d }
network: { delay: %dus, distribution: exponential }
%s%s%sfaults:
%s`, seed, d.lasts, d.nodes, d.mode, d.shards, 100+d.IntN(900), regions, limits, traffic, strings.Join(d.faults, ""))
	if d.mode == "lease" {
		text += fmt.Sprintf("lease_ttl: %dms\n", []int{20, 50, 100}[d.IntN(3)])
	}
	if d.IntN(3) == 0 {
		text += fmt.Sprintf("clock_skew: %dms\n", 10+d.IntN(500))
	}
	s, err := scenario.Parse("random.yaml", []byte(text))
	if err != nil {
		t.Fatalf("seed %d: %v in%s", seed, err, text)
	}
	return s
}

// limits returns the limits and the traffic, as lines of a scenario.
func (d *draft) limits() (limits, traffic string) {
	algorithms := sharedAlgorithms
	if (d.mode == "exact" || d.mode == "local") && d.regions == 0 {
		algorithms = allAlgorithms
	}
	algorithm, count, period, cost := algorithms[d.IntN(len(algorithms))], 5+d.IntN(300), 1+d.IntN(2), 1
	if d.IntN(3) == 0 {
		cost = 2 + d.IntN(4) // at most 5, the least count
	}
	limit := fmt.Sprintf("%d/%ds %s", count, period, algorithm)
	switch algorithm {
	case "token-bucket", "gcra", "leaky-bucket":
		if d.IntN(2) == 0 {
			limit += fmt.Sprintf(" burst %d", []int{max(cost, count/(5+d.IntN(20))), 2 * count}[d.IntN(2)])
		}
	case "sliding-window", "sliding-buckets":
		limits = fmt.Sprintf("judge_by: %s\n", algorithm)
	}
	d.lasts = 20 * time.Second
	if d.IntN(3) == 0 { // a request needs both, and either is denied first
		d.lasts *= 2 // clients that honour Retry-After repeat requests for four windows
		longer := fmt.Sprintf("%d/4s %s", max(cost, count*3/2), algorithm)
		both := []string{limit, longer}
		if d.IntN(2) == 0 {
			slices.Reverse(both)
		}
		limit = strings.Join(both, ", ")
	}
	limits += fmt.Sprintf("limits: [%s]\n", limit)
	rate := 3 * count / period * (1 + d.IntN(6)) / cost
	more := ""
	if d.IntN(4) == 0 { // units of a lease are left over, and the bucket is full soon
		more += fmt.Sprintf(", on: %dms, off: %dms", 20+d.IntN(200), 20+d.IntN(300))
	}
	if d.IntN(4) == 0 {
		attempts, wait := 2+d.IntN(3), fmt.Sprintf("wait: %dms", 10+d.IntN(200))
		if d.IntN(2) == 0 {
			wait = "honour_retry_after: true"
		}
		more += fmt.Sprintf(", retry: { attempts: %d, %s }", attempts, wait)
	}
	traffic = fmt.Sprintf("traffic: [{ rate: %d, clients: 3, cost: %d, until: %dms%s }]\n", max(rate, 3), cost, d.until, more)
	return limits, traffic
}

// addFaults adds faults that end before the traffic does, and nodes that join. A node that joins soon after the end of
// the traffic has to learn what was consumed in the window before.
func (d *draft) addFaults() {
	d.join(200 + d.IntN(500))
	if d.IntN(3) == 0 {
		d.join(d.until + 20 + d.IntN(250))
	}
	if (d.mode == "async" || d.mode == "gossip") && d.IntN(2) == 0 {
		return // the bound without faults is lower
	}
	kinds := d.faultKinds()
	for range d.IntN(4) {
		fault := fmt.Sprintf("  - { %s, at: %dms, for: %dms }\n", kinds[d.IntN(len(kinds))], 800+d.IntN(900), 50+d.IntN(250))
		d.faults = append(d.faults, fault)
	}
}

func (d *draft) join(at int) {
	region := ""
	if d.regions > 0 {
		region = ", regions: [1]"
	}
	d.faults = append(d.faults, fmt.Sprintf("  - { kind: join, at: %dms, count: 1%s }\n", at, region))
	d.joined++
}

// faultKinds returns the kinds of faults that the mode can have, with their fields.
func (d *draft) faultKinds() []string {
	all := d.nodes*max(1, d.regions) + 1 // one has joined
	by := func() int { return (10 + d.IntN(500)) * (1 - 2*d.IntN(2)) }
	kinds := []string{
		fmt.Sprintf("kind: crash, nodes: [%d]", d.IntN(all)),
		fmt.Sprintf("kind: node-clock, nodes: [%d], by: %dms", d.IntN(all), by()),
	}
	if d.mode == "local" {
		return kinds
	}
	kinds = append(kinds, fmt.Sprintf("kind: partition, nodes: [%d]", d.IntN(all)), "kind: slow, delay: 15ms",
		"kind: lossy, loss: 20")
	if d.mode == "gossip" {
		return kinds
	}
	kinds = append(kinds, "kind: redis-down, shard: 0", "kind: failover, shard: 0", "kind: failover, shard: 0, keep_data: true",
		fmt.Sprintf("kind: redis-clock, shard: 0, by: %dms", by()))
	if d.regions > 0 {
		kinds = append(kinds, "kind: region-partition, regions: [1]", "kind: slow, delay: 100ms, between_regions: true",
			"kind: lossy, loss: 20, between_regions: true", "kind: failover, global: true", "kind: redis-down, global: true")
	}
	return kinds
}
