package limiters

import (
	"context"
	"errors"
	"math"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/server/control"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/fleetredis"
	"github.com/headgate/headgate/server/fleet/region"
)

// regionLimiters share limits with other regions. There is one limiter for each consistency inside a region.
type regionLimiters struct {
	store        *redisstore.Store // shared by all regions
	exact, lease *deferredLimiter[*region.Limiter]
	async        *deferredLimiter[*async.Limiter]
}

// globalMode is the name of these limiters in logs and metrics.
const globalMode = "global"

func (rl *regionLimiters) open(ctx context.Context, fl *Fleet) error {
	log := fl.log.With("mode", globalMode)
	rl.exact = newDeferredLimiter[*region.Limiter](fl.stores.guard)
	rl.lease = newDeferredLimiter[*region.Limiter](fl.lease)
	rl.async = newDeferredLimiter[*async.Limiter](fl.async)
	for _, r := range []struct {
		target *deferredLimiter[*region.Limiter]
		local  headgate.Limiter
		mode   rules.Consistency
	}{{rl.exact, fl.stores.guard, rules.Exact}, {rl.lease, fl.lease, rules.Lease}} {
		create := func(ctx context.Context) (*region.Limiter, error) { return rl.newRegion(ctx, fl, r.local, r.mode) }
		if err := r.target.open(ctx, create, log); err != nil {
			return err
		}
	}
	create := func(ctx context.Context) (*async.Limiter, error) {
		return fl.openAsyncThrough(ctx, rl.store, rl.name(fl, rules.Async), fl.config.Fleet.GlobalInterval, globalMode)
	}
	return rl.async.open(ctx, create, log)
}

// name returns the name under which nodes of all regions exchange updates in the shared store.
func (rl *regionLimiters) name(fl *Fleet, mode rules.Consistency) string {
	return fl.name() + ":" + globalMode + ":" + mode.String()
}

// newRegion creates a limiter that counts with the limiter local inside this region, and exchanges updates with other
// regions.
func (rl *regionLimiters) newRegion(
	ctx context.Context, fl *Fleet, local headgate.Limiter, mode rules.Consistency,
) (*region.Limiter, error) {
	secret, err := fleetredis.Secret(ctx, rl.store)
	if err != nil {
		return nil, err
	}
	name := rl.name(fl, mode)
	o := region.Options{
		Region: fl.config.Region, Node: fl.id, Interval: fl.config.Fleet.GlobalInterval,
		OnEvent: fl.onAsyncEvent(globalMode),
	}
	regionStore, err := fleetredis.NewRegionStore(fl.stores.redis, name)
	if err != nil {
		return nil, err
	}
	exchange, err := fleetredis.NewExchange(rl.store, fleetredis.ExchangeOptions{
		Name: name, Author: o.Author(), Secret: secret,
	})
	if err != nil {
		return nil, err
	}
	g, err := region.New(fl.ledger(secret), local, regionStore, exchange, o)
	if err == nil {
		fl.syncClock(ctx, g)
	}
	return g, err
}

func (rl *regionLimiters) byConsistency() map[rules.Consistency]headgate.Limiter {
	return map[rules.Consistency]headgate.Limiter{
		rules.Exact: rl.exact, rules.Lease: rl.lease, rules.Async: borrowingLimiter[*async.Limiter]{rl.async},
	}
}

func (rl *regionLimiters) close() error {
	var parts []func(context.Context) error
	for _, r := range []*deferredLimiter[*region.Limiter]{rl.exact, rl.lease} {
		if r != nil {
			parts = append(parts, r.close)
		}
	}
	if rl.async != nil {
		parts = append(parts, rl.async.close)
	}
	return errors.Join(closeAll(parts...), rl.store.Close())
}

// stats returns the sum over all limiters.
func (rl *regionLimiters) stats() control.SyncFigures {
	all := control.SyncFigures{Mode: globalMode, Up: true}
	for _, r := range []*deferredLimiter[*region.Limiter]{rl.exact, rl.lease} {
		if g, ok := r.get(); ok {
			s := g.Stats()
			n := asyncSync(globalMode, s.ExchangeStats)
			n.Lost = s.Lost
			if s.StoreClockOff.Abs() >= fleet.MaxClockSkew {
				n.ClocksOff++
			}
			addSync(&all, n)
		} else {
			all.Up = false
		}
	}
	if g, ok := rl.async.get(); ok {
		addSync(&all, asyncSync(globalMode, g.Stats()))
	} else {
		all.Up = false
	}
	return all
}

// addSync adds the figures n to sum. It adds up counters, and keeps the maximum of other values.
func addSync(sum *control.SyncFigures, n control.SyncFigures) {
	for _, counter := range []struct {
		sum *int64
		n   int64
	}{
		{&sum.Keys, n.Keys},
		{&sum.Waiting, n.Waiting},
		{&sum.Applied, n.Applied},
		{&sum.Over, n.Over},
		{&sum.Lost, n.Lost},
		{&sum.Sent, n.Sent},
		{&sum.Received, n.Received},
		{&sum.Failed, n.Failed},
		{&sum.Refused, n.Refused},
		{&sum.Evicted, n.Evicted},
		{&sum.Full, n.Full},
		{&sum.Lookups, n.Lookups},
		{&sum.LookupWaits, n.LookupWaits},
		{&sum.LookupsDropped, n.LookupsDropped},
	} {
		*counter.sum += counter.n
	}
	sum.OverMax, sum.ClocksOff = max(sum.OverMax, n.OverMax), max(sum.ClocksOff, n.ClocksOff)
	sum.LagMS, sum.LagMaxMS = max(sum.LagMS, n.LagMS), max(sum.LagMaxMS, n.LagMaxMS)
	if math.Abs(n.ClockAheadMS) > math.Abs(sum.ClockAheadMS) {
		sum.ClockAheadMS = n.ClockAheadMS
	}
	sum.Up = sum.Up && n.Up
}
