package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/sim/scenario"
)

// TestExchangesDependOnTheirRedisServer lets two nodes exchange a note while the clock of the server jumps, and after
// failovers.
func TestExchangesDependOnTheirRedisServer(t *testing.T) {
	t.Parallel()
	s, err := scenario.Parse("test.yaml", []byte(`
duration: 1h
nodes: 2
limits: [10/s]
modes: [async]
traffic: [{ rate: 1, from: 59m }]
faults:
  - { kind: redis-clock, at: 10s, by: 3s, for: 10s }
  - { kind: failover, at: 30s, for: 1s, keep_data: true }
  - { kind: failover, at: 40s, for: 1s }
`))
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWorld(s, s.Variants()[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}()
	w.startFaults()
	const key = "\x05 and 15 letters"
	var exchanges []fleet.Exchange
	for _, n := range w.nodes {
		x, err := w.newExchange(n, w.newExchangeRedis(n), fmt.Sprint("author of ", n.host.Name))
		if err != nil {
			t.Fatal(err)
		}
		exchanges = append(exchanges, x)
	}
	// exchange returns the ages of the notes that a node reads at a time, and whether it finds that notes were lost.
	exchange := func(node int, at time.Duration, text string, all bool) (ages []time.Duration, lost bool) {
		t.Helper()
		for w.loop.Step(at) {
		}
		w.nodes[node].host.Run(func() {
			notes := []fleet.Note{{Key: key, Text: text, Keep: time.Minute, ReadAll: all}}
			_, err := exchanges[node].Exchange(t.Context(), notes, func(_ int, n fleet.PeerNote) {
				ages = append(ages, n.Age.Round(100*time.Millisecond))
			})
			if err != nil {
				t.Errorf("at %v: %v", at, err)
			}
		})
		for w.loop.Step(at + 100*time.Millisecond) {
		}
		return ages, exchanges[node].(fleet.LossReporter).Lost() == 1<<5
	}
	expect := func(when string, node int, at time.Duration, text string, all bool, wantAges string, wantLost bool) {
		t.Helper()
		ages, lost := exchange(node, at, text, all)
		if got := fmt.Sprint(ages); got != wantAges || lost != wantLost {
			t.Errorf("%s: ages %v, lost %v, want %v and %v", when, got, lost, wantAges, wantLost)
		}
	}
	expect("the first note", 0, time.Second, "1", false, "[]", false)
	expect("its reader", 1, 3*time.Second, "", false, "[2s]", false)
	expect("a clock that is 3 s ahead", 1, 11*time.Second, "", true, "[13s]", false)
	expect("the clock is right again", 1, 21*time.Second, "", true, "[20s]", false)
	expect("nothing is new", 1, 22*time.Second, "", false, "[]", false)
	expect("another server with the data", 1, 32*time.Second, "", false, "[31s]", true)
	expect("after that", 1, 33*time.Second, "", false, "[]", false)
	expect("another server without data", 1, 42*time.Second, "", true, "[]", true)
	expect("a note again", 0, 43*time.Second, "2", false, "[]", true)
	expect("its reader", 1, 45*time.Second, "", false, "[2s]", false)
	expect("after the time to keep it", 1, 43*time.Second+time.Minute+time.Second, "", true, "[]", false)
}
