package fleet

import (
	"testing"
	"time"
)

func TestGossipIsMeasured(t *testing.T) {
	load := gossipLoad{hosts: 3, keys: 1000, perHost: 300, warmup: 300 * time.Millisecond, length: 500 * time.Millisecond}
	out, err := measureGossip(t.Context(), load)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.bytes) != load.hosts || len(out.hot) == 0 || len(out.cold) == 0 || out.rate == 0 {
		t.Fatalf("got %d hosts, %d and %d samples, %.0f decisions a second, want some of each", len(out.bytes), len(out.hot), len(out.cold), out.rate)
	}
	for i, sent := range out.bytes {
		if sent == 0 {
			t.Errorf("host %d sent nothing", i)
		}
	}
	if table := gossipTable(load, out); len(table.Rows) != 3 || len(table.Bars) != 2 {
		t.Errorf("got a table of %d rows and %d bars, want 3 and 2", len(table.Rows), len(table.Bars))
	}
}
