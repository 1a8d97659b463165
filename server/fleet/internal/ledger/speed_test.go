package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/engine"
	"github.com/headgate/headgate/internal/clock"
	"github.com/headgate/headgate/internal/racing"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

var _ engine.Borrower = (*Ledger)(nil)

func TestADecisionAllocatesNothing(t *testing.T) {
	_, all := hosts(t, 1, true, func(o *fleet.LedgerOptions) { o.Clock = clock.System })
	h := all[0]
	ctx := context.Background()
	limits := []headgate.Limit{
		headgate.PerSecond(100), headgate.MustParseLimit("100/s gcra burst 7"),
		headgate.MustParseLimit("100/h fixed-window"), headgate.MustParseLimit("100/h sliding-window"),
		headgate.MustParseLimit("100/h fixed-window staggered"),
	}
	racing.Skip(t, "the race detector allocates")
	for _, l := range limits {
		check := headgate.Check{Key: l.String(), Limit: l, Cost: 1}
		take := func() {
			if _, err := h.Take(ctx, check); err != nil {
				t.Fatal(err)
			}
		}
		take()
		h.Changes(nil, 100)
		if got := testing.AllocsPerRun(1000, take); got != 0 {
			t.Errorf("%v: got %v allocations a decision, want none", l, got)
		}
	}
	checks := []headgate.Check{{Key: "a", Limit: limits[0], Cost: 1}, {Key: "b", Limit: limits[2], Cost: 1}, {Key: "c", Limit: limits[3], Cost: 1}}
	dst := make([]headgate.Decision, 0, 3)
	if got := testing.AllocsPerRun(1000, func() {
		var err error
		if dst, err = h.TakeAll(ctx, checks, dst[:0]); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("TakeAll: got %v allocations, want none", got)
	}
}

func BenchmarkLedgerTake(b *testing.B) {
	for _, keys := range []int{1, 10_000, 1_000_000} {
		for _, limit := range []headgate.Limit{headgate.PerSecond(1_000_000), headgate.PerSecond(10)} {
			b.Run(fmt.Sprintf("keys=%d/limit=%v", keys, limit.Count), func(b *testing.B) {
				l, err := New(fleet.LedgerOptions{Secret: fleettest.Secret, MaxKeys: 1 << 21}, fleet.Peer{}, true)
				if err != nil {
					b.Fatal(err)
				}
				names := make([]string, keys)
				ctx := context.Background()
				for i := range names {
					names[i] = fmt.Sprintf("rule-of-some-length/client-%08d", i)
					if _, err := l.Take(ctx, headgate.Check{Key: names[i], Limit: limit, Cost: 1}); err != nil {
						b.Fatal(err)
					}
				}
				l.ExchangeDone(l.Changes(nil, keys), nil) // all keys are known
				runtime.GC()
				b.ReportAllocs()
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					rng := rand.New(rand.NewPCG(rand.Uint64(), 1))
					for pb.Next() {
						check := headgate.Check{Key: names[rng.IntN(keys)], Limit: limit, Cost: 1}
						if _, err := l.Take(ctx, check); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

func BenchmarkLedgerAbsorb(b *testing.B) {
	clock, all := hosts(b, 2, false, nil)
	limit := headgate.PerSecond(1000)
	const keys = 10_000
	for i := range keys {
		all[0].take(fmt.Sprint(i), limit, 1)
		all[1].take(fmt.Sprint(i), limit, 1)
	}
	tallies := all[1].Changes(nil, keys)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += keys {
		clock.Advance(time.Second)
		for i := range tallies {
			tallies[i].Total++
		}
		all[0].Apply(all[1].Peer, all[1].Uptime(), tallies)
	}
}

func BenchmarkLedgerChanges(b *testing.B) {
	_, all := hosts(b, 1, false, nil)
	limit := headgate.PerSecond(1000)
	const keys = 100_000
	b.ReportAllocs()
	var dst []tally.Tally
	for range b.N {
		b.StopTimer()
		for i := range keys {
			all[0].take(fmt.Sprint(i), limit, 1)
		}
		b.StartTimer()
		dst = all[0].Changes(dst[:0], 1000)
		b.StopTimer()
		dst = all[0].Changes(dst[:0], keys)
		b.StartTimer()
	}
}
