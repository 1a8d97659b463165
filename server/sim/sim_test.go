package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/sim"
	"github.com/headgate/headgate/server/sim/scenario"
)

func run(t *testing.T, text string) *sim.Results {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := sim.Run(t.Context(), s, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const threeNodes = `
duration: 10s
nodes: 3
limits: [10/s]
modes: [%s]
traffic: [{ rate: 300, clients: 5 }]
`

func TestModesAdmitWhatTheyPromise(t *testing.T) {
	t.Parallel()
	// Five clients send 60 requests per second each, and may have 10 + 10·10.
	const allowed = 5 * 110
	for _, c := range []struct {
		mode          string
		least, most   int64
		wronglyDenied int64 // at most
	}{
		{"local", 3 * allowed * 9 / 10, 3 * allowed, 0},
		{"exact", allowed - 10, allowed, 0},
		{"lease", allowed * 8 / 10, allowed, allowed * 2 / 10},
		{"async", allowed * 9 / 10, allowed + 5*2*11, 20},
		{"gossip", allowed * 9 / 10, allowed + 5*2*11, 20},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			r := run(t, fmt.Sprintf(threeNodes, c.mode)).Results[0]
			if r.Admitted < c.least || r.Admitted > c.most {
				t.Errorf("admitted %d of %d, want %d to %d", r.Admitted, r.Requests, c.least, c.most)
			}
			if r.WronglyDenied > c.wronglyDenied {
				t.Errorf("wrongly denied %d, want at most %d", r.WronglyDenied, c.wronglyDenied)
			}
			if c.mode == "exact" && r.WronglyAdmitted != 0 {
				t.Errorf("wrongly admitted %d, want 0", r.WronglyAdmitted)
			}
			if r.Admitted+r.Denied+r.Unserved > r.Requests {
				t.Errorf("%d admitted and %d denied of %d", r.Admitted, r.Denied, r.Requests)
			}
			t.Logf("%+v", *r)
		})
	}
}

func TestSameSeedGivesTheSameResults(t *testing.T) {
	racing.Skip(t, "one goroutine at a time runs, so there are no races")
	t.Parallel()
	const text = `
duration: 5s
nodes: 4
seed: %d
limits: [20/s burst 40, 1000/m sliding-window]
modes: [local, exact, lease, async, gossip]
clock_skew: 200ms
network: { delay: 1ms, distribution: heavy, loss: 1 }
redis: { shards: 3 }
traffic:
  - { rate: 500, clients: 50, zipf: 1.2, retry: { attempts: 3, honour_retry_after: true } }
  - { rate: 200, clients: 10, prefix: attacker, on: 500ms, off: 500ms, retry: { attempts: 5, wait: 20ms } }
faults:
  - { kind: crash, at: 1s, for: 500ms, nodes: [0] }
  - { kind: partition, at: 2s, for: 1s, nodes: [1, 2] }
  - { kind: failover, at: 3s, for: 300ms, shard: 1 }
  - { kind: join, at: 3500ms, count: 2 }
`
	encode := func(seed int) string {
		data, err := json.Marshal(run(t, fmt.Sprintf(text, seed)))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	first, second, other := encode(1), encode(1), encode(2)
	if first != second {
		t.Errorf("two runs with the same seed differ:\n%s\n%s", first, second)
	}
	if first == other {
		t.Error("runs with different seeds are equal")
	}
}

func TestAnInterruptedRunKeepsPartialResults(t *testing.T) {
	t.Parallel()
	s, err := scenario.Parse("test.yaml", []byte(fmt.Sprintf(threeNodes, "exact, lease")))
	if err != nil {
		t.Fatal(err)
	}
	s.Duration = 1e15
	s.Traffic[0].Until = s.Duration
	ctx, cancel := context.WithCancel(t.Context())
	r, err := sim.Run(ctx, s, sim.Options{Parallel: 1, Progress: func(sim.Progress) { cancel() }})
	if err == nil || !r.Partial || len(r.Results) != 2 || !r.Results[0].Partial || r.Results[0].Requests == 0 {
		t.Fatalf("got %+v and error %v, want two partial results and an error", r.Results, err)
	}
	if last := r.Results[1]; !last.Partial || last.Simulated != 0 || last.Mode != "lease" {
		t.Errorf("got %+v, want a result of lease that was not simulated", last)
	}
}

func TestProgressEndsWithAllRuns(t *testing.T) {
	t.Parallel()
	s, err := scenario.Parse("test.yaml", []byte(fmt.Sprintf(threeNodes, "exact, lease")))
	if err != nil {
		t.Fatal(err)
	}
	var last sim.Progress
	r, err := sim.Run(t.Context(), s, sim.Options{Parallel: 1, Progress: func(p sim.Progress) { last = p }})
	if err != nil {
		t.Fatal(err)
	}
	want := sim.Progress{Runs: 2, Ended: 2, Fraction: 1, Requests: r.Results[0].Requests + r.Results[1].Requests}
	if last != want {
		t.Errorf("got %+v, want %+v", last, want)
	}
}

func TestAsyncAdmitsTheLimitAfterOutages(t *testing.T) {
	racing.Skip(t, "one goroutine at a time runs, so there are no races")
	t.Parallel()
	const text = `
duration: 30s
nodes: 10
limits: [50/s burst 100]
modes: [async]
on_failure: local
traffic: [{ rate: 500 }]
faults:
  - { kind: %s, at: 10s, for: 5s%s }
`
	for name, c := range map[string]struct{ kind, nodes string }{
		"Redis was down":          {"redis-down", ""},
		"Redis lost its data":     {"failover", ""},
		"two nodes were cut off":  {"partition", ", nodes: [1, 2]"},
		"four nodes were cut off": {"partition", ", nodes: [1, 2, 3, 4]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := run(t, fmt.Sprintf(text, c.kind, c.nodes)).Results[0]
			// The client sends ten times its limit, which is 100 + 30·50.
			if got := r.Admitted; got < 1600-40 || got > 1600+60 {
				t.Errorf("admitted %d, want about 1600", got)
			}
			t.Logf("%d admitted", r.Admitted)
		})
	}
}

func TestRequestsTakeTheirCost(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"local", "exact", "lease", "async", "gossip"} {
		r := run(t, "duration: 10s\nlimits: [20/s]\nmodes: ["+mode+"]\ntraffic: [{ rate: 100, cost: 5 }]\n").Results[0]
		// 20 + 10·20 units are 44 requests.
		if r.Admitted < 42 || r.Admitted > 44 || r.MaxExcess != 0 {
			t.Errorf("%s: %d admitted, excess %d, want 42 to 44 without excess", mode, r.Admitted, r.MaxExcess)
		}
	}
}
