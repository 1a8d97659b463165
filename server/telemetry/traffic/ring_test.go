package traffic

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/rules/match"
)

// Erase drains the ring to which requests are being added.
func TestRingKeepsRequestsThatAreAddedDuringADrain(t *testing.T) {
	t.Parallel()
	const writers, attempts = 4, 100_000
	ring, stats := &sampleRing{}, &ruleStats{}
	var added atomic.Int64
	var group sync.WaitGroup
	for w := range uint64(writers) {
		group.Go(func() {
			c := engine.ClientView{Matched: &match.Result{}, Cost: int64(w)}
			for range attempts {
				if ring.put(stats, w, int64(w), &c) {
					added.Add(1)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	drained := int64(0)
	check := func(e *sampledRequest) {
		drained++
		if e.stats != stats || e.at != int64(e.key) || e.cost != int64(e.key) {
			t.Errorf("got key %d, time %d and cost %d, want equal numbers", e.key, e.at, e.cost)
		}
	}
	for running := true; running; ring.drain(check) {
		select {
		case <-done:
			running = false
		default:
		}
	}
	if got := added.Load(); drained != got {
		t.Errorf("got %d requests, want the %d that were added", drained, got)
	}
}
