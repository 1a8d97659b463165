package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
	"github.com/headgate/headgate/server/sim/virtual"
)

// startWorld starts the traffic and the faults of a scenario with one variant. The test closes the world.
func startWorld(t *testing.T, text string) *world {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(s, s.Variants()[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	w.startTraffic(nil)
	w.startFaults()
	return w
}

// run runs the events until a time.
func (w *world) run(until time.Duration) {
	for w.loop.Step(until) {
	}
}

func TestClocksOfNodesStayWrong(t *testing.T) {
	t.Parallel()
	w := startWorld(t, `
duration: 1m
nodes: 3
limits: [10/s]
clock_skew: 10s
traffic: [{ rate: 1 }]
faults:
  - { kind: crash, at: 5s, for: 1s, nodes: [0] }
  - { kind: join, at: 10s, count: 1 }
  - { kind: node-clock, at: 15s, nodes: [1], by: 1h }
  - { kind: crash, at: 20s, for: 1s, nodes: [1, 3] }
`)
	ahead := func() (list []time.Duration) {
		for _, n := range w.nodes {
			list = append(list, n.host.Now().Sub(virtual.Epoch.Add(w.loop.Now())))
		}
		return list
	}
	w.run(time.Second)
	want := ahead()
	if slices.Contains(want, 0) {
		t.Errorf("clocks are ahead by %v, want no 0", want)
	}
	w.run(11 * time.Second)
	joined := ahead()
	if len(joined) != 4 || joined[3] == 0 || !slices.Equal(joined[:3], want) {
		t.Errorf("after a crash and a join: %v, want %v and another one", joined, want)
	}
	w.run(30 * time.Second)
	joined[1] += time.Hour
	if got := ahead(); !slices.Equal(got, joined) {
		t.Errorf("after a jump and crashes: %v, want %v", got, joined)
	}
}

func TestRequestsInFlightOnACrashedNodeAreCounted(t *testing.T) {
	t.Parallel()
	w := startWorld(t, `
duration: 1m
nodes: 2
limits: [1000000/s]
modes: [exact]
network: { delay: 10ms, distribution: fixed }
redis: { deadline: 1s }
traffic: [{ rate: 1000, pattern: constant, until: 10s }]
faults: [{ kind: crash, at: 5s, for: 1s, nodes: [0] }]
`)
	w.run(time.Minute)
	r := w.result
	// Node 0 gets 500 requests per second, and each takes 20 ms.
	if r.Unserved < 9 || r.Unserved > 11 || r.Admitted+r.Denied+r.Unserved != r.Requests {
		t.Errorf("%d unserved, %d admitted and %d denied of %d, want about 10 unserved, and all together", r.Unserved, r.Admitted,
			r.Denied, r.Requests)
	}
}

func TestCallsThatWaitAreNoLoad(t *testing.T) {
	t.Parallel()
	w := startWorld(t, `
duration: 20s
limits: [10/s]
modes: [gossip]
traffic: [{ rate: 1 }]
`)
	w.run(10 * time.Second)
	w.redis[0].serve(w, 100, 100*time.Second) // 10 s of them until the end
	w.run(20 * time.Second)
	if w.result.readWorld(w); w.result.RedisLoad != 0.5 {
		t.Errorf("load %v, want 0.5", w.result.RedisLoad)
	}
}

func TestNodesNoticeACrashAfterSomeTime(t *testing.T) {
	t.Parallel()
	w := startWorld(t, `
duration: 1m
nodes: 3
limits: [10/s]
modes: [lease]
traffic: [{ rate: 1 }]
faults: [{ kind: crash, at: 10s, nodes: [0] }]
`)
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{9 * time.Second, 3}, {12 * time.Second, 3}, {16 * time.Second, 2}} {
		w.run(c.at)
		if got := w.nodes[1].members.Live(); got != c.want {
			t.Errorf("at %v: %d live nodes, want %d", c.at, got, c.want)
		}
	}
}

// A node is down until the last of its crashes has ended, whichever began first.
func TestOverlappingCrashesKeepANodeDown(t *testing.T) {
	t.Parallel()
	w := startWorld(t, `
duration: 1m
nodes: 2
limits: [10/s]
modes: [local]
traffic: [{ rate: 1 }]
faults:
  - { kind: crash, at: 10s, for: 5s, nodes: [0] }
  - { kind: crash, at: 12s, for: 15s, nodes: [0] }
  - { kind: node-clock, at: 14s, by: 1s, nodes: [0] }
  - { kind: crash, at: 30s, for: 10s, nodes: [0, 1] }
  - { kind: crash, at: 31s, for: 1s, nodes: [1] }
`)
	for _, c := range []struct {
		at   time.Duration
		want []bool // which nodes run
	}{
		{9 * time.Second, []bool{true, true}},
		{13 * time.Second, []bool{false, true}},
		{20 * time.Second, []bool{false, true}},
		{28 * time.Second, []bool{true, true}},
		{35 * time.Second, []bool{false, false}},
		{41 * time.Second, []bool{true, true}},
	} {
		w.run(c.at)
		for slot, want := range c.want {
			if got := w.nodes[slot] != nil; got != want {
				t.Errorf("node %d after %v: got running %t, want %t", slot, c.at, got, want)
			}
		}
	}
}
