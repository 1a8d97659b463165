package fallback_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/fallback"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestTheShareOfALimitWhilePeersAreUnreachable(t *testing.T) {
	whole, safe := headgate.PerSecond(100), headgate.PerSecond(7)
	m := &fleettest.Members{LiveNodes: 3, KnownNodes: 4}
	for _, tt := range []struct {
		name        string
		check       headgate.Check
		unreachable bool
		want        fallback.Allowance
		limit       headgate.Limit
	}{
		{"reachable", headgate.Check{OnFailure: headgate.Closed}, false, fallback.Allowance{}, whole},
		{"open", headgate.Check{OnFailure: headgate.Open}, true, fallback.Allowance{Degraded: true}, whole},
		{"closed", headgate.Check{OnFailure: headgate.Closed}, true, fallback.Allowance{Degraded: true, Denied: true}, whole},
		{"local", headgate.Check{OnFailure: headgate.Local}, true, fallback.Allowance{Degraded: true, Part: 1, Whole: 3}, whole},
		{"local and safe", headgate.Check{OnFailure: headgate.Local, Safe: &safe}, true, fallback.Allowance{Degraded: true}, safe},
		{"partition", headgate.Check{Partition: headgate.PartitionShare}, false, fallback.Allowance{Part: 3, Whole: 4}, whole},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.check.Key, tt.check.Limit, tt.check.Cost = "k", whole, 1
			var limit headgate.Limit
			if got := fallback.Allow(&tt.check, &limit, tt.unreachable, m); got != tt.want || limit != tt.limit {
				t.Errorf("got %+v of %v, want %+v of %v", got, limit, tt.want, tt.limit)
			}
		})
	}
	var limit headgate.Limit
	alone := headgate.Check{Key: "k", Limit: whole, Cost: 1, OnFailure: headgate.Local}
	if got, want := fallback.Allow(&alone, &limit, true, nil), (fallback.Allowance{Degraded: true, Part: 1, Whole: 1}); got != want {
		t.Errorf("a node alone: got %+v, want %+v", got, want)
	}
}
