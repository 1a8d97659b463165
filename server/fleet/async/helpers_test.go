package async

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

// startAsync starts nodes that share a slate. They end with the test.
func startAsync(t testing.TB, n int, s *fleettest.Board, change func(*fleet.LedgerOptions, *Options)) []*Limiter {
	t.Helper()
	var all []*Limiter
	for i := range n {
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		lo := fleet.LedgerOptions{
			Secret:    fleettest.Secret,
			OnRefused: func(from fleet.Peer, why string) { t.Errorf("refused a tally of %v: %s", from, why) },
		}
		o := Options{
			Name: fmt.Sprint("node ", i), Incarnation: uint64(100 + i), Rand: rng.Int64N,
			OnEvent: func(e fleet.Event) { t.Errorf("an event: %v %v", e.Kind, e.Err) },
		}
		if change != nil {
			change(&lo, &o)
		}
		a, err := New(lo, s.Node(o.Author()), o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	return all
}

func closeAsync(t testing.TB, all ...*Limiter) {
	t.Helper()
	for _, a := range all {
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
