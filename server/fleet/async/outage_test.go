package async

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/exchange"
	"github.com/headgate/headgate/server/fleet/internal/fleettest"
)

func TestAsyncLostExchangeChargesNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(time.Millisecond)
		all := startAsync(t, 3, s, nil)
		defer closeAsync(t, all...)
		limit := headgate.PerHour(1000)
		for round := range 5 {
			for _, a := range all {
				takeAsync(t, a, "k", limit, 10)
			}
			talk()
			leftAsync(t, fmt.Sprint("round ", round), "k", limit, int64(1000-30*(round+1)), all...)
			s.Wipe()
		}
	})
}

func TestAsyncDecidesWhileTheExchangeIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []fleet.Event
		s := fleettest.NewBoard(time.Millisecond)
		all := startAsync(t, 2, s, func(lo *fleet.LedgerOptions, o *Options) {
			lo.Members = &fleettest.Members{LiveNodes: 2, KnownNodes: 2}
			o.OnEvent = func(e fleet.Event) {}
			if o.Name == "node 0" {
				o.OnEvent = func(e fleet.Event) { events = append(events, e) }
			}
		})
		defer closeAsync(t, all...)
		limit := headgate.PerHour(1000)
		takeAsync(t, all[0], "k", limit, 10)
		takeAsync(t, all[1], "k", limit, 10)
		talk()
		leftAsync(t, "before", "k", limit, 980, all...)

		s.SetDown(true)
		takeAsync(t, all[0], "k", limit, 10)
		time.Sleep(time.Second)
		leftAsync(t, "while it is away, by itself", "k", limit, 970, all[0])
		check := headgate.Check{Key: "k", Limit: limit, Cost: 1, OnFailure: headgate.Local}
		if d, err := all[0].Take(context.Background(), check); err != nil || d.Limit != 500 || !d.Degraded {
			t.Errorf("local, while it is away: got %+v, %v, want a limit of 500, degraded", d, err)
		}
		check.OnFailure = headgate.Closed
		if d, err := all[0].Take(context.Background(), check); err != nil || d.Allowed || !d.Degraded || d.RetryAfter <= 0 {
			t.Errorf("closed, while it is away: got %+v, %v, want denied for a while, degraded", d, err)
		}
		if !all[0].Stats().Unreachable || all[0].Stats().Failures == 0 {
			t.Errorf("stats: got %+v, want away and failures", all[0].Stats())
		}

		s.SetDown(false)
		talk()
		leftAsync(t, "when it is back", "k", limit, 969, all[0])
		takeAsync(t, all[1], "k", limit, 1)
		takeAsync(t, all[0], "k", limit, 1)
		talk()
		leftAsync(t, "when it is back", "k", limit, 967, all...)
		if d, err := all[0].Take(context.Background(), check); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("closed, when it is back: got %+v, %v, want allowed", d, err)
		}
		if len(events) != 2 || events[0].Kind != fleet.ExchangeUnreachable || !errors.Is(events[0].Err, fleettest.ErrDown) ||
			events[1].Kind != fleet.ExchangeReachable || events[1].Down < time.Second {
			t.Errorf("events: got %v, want away and back after a second", events)
		}
	})
}

func TestAsyncIdleNodeNoticesAnUnreachableExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fleettest.NewBoard(time.Millisecond)
		var events []fleet.EventKind
		all := startAsync(t, 1, s, func(_ *fleet.LedgerOptions, o *Options) {
			o.OnEvent = func(e fleet.Event) { events = append(events, e.Kind) }
		})
		defer closeAsync(t, all...)
		time.Sleep(time.Minute)
		if stats := all[0].Stats(); stats.Unreachable || stats.Failures != 0 || stats.Exchanges < 100 || stats.Exchanges > 400 {
			t.Errorf("stats after a quiet minute: got %+v, want about 240 exchanges that all were answered", stats)
		}
		s.SetDown(true)
		time.Sleep(2 * exchange.DefaultMaxMissed * DefaultInterval)
		check := headgate.Check{Key: "k", Limit: headgate.PerHour(1000), Cost: 1, OnFailure: headgate.Closed}
		if d, err := all[0].Take(context.Background(), check); err != nil || d.Allowed || !d.Degraded {
			t.Errorf("the first that comes while it is away: got %+v, %v, want denied", d, err)
		}
		s.SetDown(false)
		time.Sleep(2 * exchange.DefaultMaxMissed * DefaultInterval)
		if d, err := all[0].Take(context.Background(), check); err != nil || !d.Allowed || d.Degraded {
			t.Errorf("the first that comes when it is back: got %+v, %v, want allowed", d, err)
		}
		if !slices.Equal(events, []fleet.EventKind{fleet.ExchangeUnreachable, fleet.ExchangeReachable}) {
			t.Errorf("events: got %v, want away and back", events)
		}
	})
}
