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

// regionLimiters are the limiters of rules with scope: global, which share limits with other regions. There is one for
// each consistency inside the region.
type regionLimiters struct {
	store        *redisstore.Store // shared by all regions
	exact, lease *lazyLimiter[*region.Limiter]
	async        *lazyLimiter[*async.Limiter]
}

// globalMode is the name of these limiters in logs and metrics.
const globalMode = "global"

func (rl *regionLimiters) open(ctx context.Context, fl *Fleet) error {
	log := fl.log.With("mode", globalMode)
	rl.exact = newLazyLimiter[*region.Limiter](fl.stores.guardedRedis)
	rl.lease = newLazyLimiter[*region.Limiter](fl.lease)
	rl.async = newLazyLimiter[*async.Limiter](fl.async)
	for _, r := range []struct {
		target *lazyLimiter[*region.Limiter]
		local  headgate.Limiter
		mode   rules.Consistency
	}{{rl.exact, fl.stores.guardedRedis, rules.Exact}, {rl.lease, fl.lease, rules.Lease}} {
		create := func(ctx context.Context) (*region.Limiter, error) { return rl.newRegion(ctx, fl, r.local, r.mode) }
		if err := r.target.open(ctx, create, log); err != nil {
			return err
		}
	}
	create := func(ctx context.Context) (*async.Limiter, error) {
		return fl.openAsyncWith(ctx, rl.store, rl.name(fl, rules.Async), fl.config.Fleet.GlobalInterval, globalMode)
	}
	return rl.async.open(ctx, create, log)
}

// name returns the name under which nodes of all regions exchange updates in the shared store.
func (rl *regionLimiters) name(fl *Fleet, mode rules.Consistency) string {
	return fl.fleetName() + ":" + globalMode + ":" + mode.String()
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
	limiter, err := region.New(fl.ledgerOptions(secret), local, regionStore, exchange, o)
	if err == nil {
		fl.syncClock(ctx, limiter)
	}
	return limiter, err
}

func (rl *regionLimiters) byConsistency() map[rules.Consistency]headgate.Limiter {
	return map[rules.Consistency]headgate.Limiter{
		rules.Exact: rl.exact, rules.Lease: rl.lease, rules.Async: borrowingLimiter[*async.Limiter]{rl.async},
	}
}

func (rl *regionLimiters) close() error {
	var parts []func(context.Context) error
	for _, r := range []*lazyLimiter[*region.Limiter]{rl.exact, rl.lease} {
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
func (rl *regionLimiters) stats() control.SyncStats {
	all := control.SyncStats{Mode: globalMode, Up: true}
	for _, r := range []*lazyLimiter[*region.Limiter]{rl.exact, rl.lease} {
		if limiter, ok := r.get(); ok {
			s := limiter.Stats()
			one := exchangeStats(globalMode, s.ExchangeStats)
			one.Lost = s.Lost
			if s.StoreClockOffset.Abs() >= fleet.MaxClockSkew {
				one.SkewedClocks++
			}
			addSync(&all, one)
		} else {
			all.Up = false
		}
	}
	if limiter, ok := rl.async.get(); ok {
		addSync(&all, exchangeStats(globalMode, limiter.Stats()))
	} else {
		all.Up = false
	}
	return all
}

// addSync adds the statistics of one limiter to sum. It adds counters, and keeps the maximum of other values.
func addSync(sum *control.SyncStats, one control.SyncStats) {
	for _, counter := range []struct {
		sum *int64
		n   int64
	}{
		{&sum.Keys, one.Keys},
		{&sum.Waiting, one.Waiting},
		{&sum.Applied, one.Applied},
		{&sum.ExcessUnits, one.ExcessUnits},
		{&sum.Lost, one.Lost},
		{&sum.Sent, one.Sent},
		{&sum.Received, one.Received},
		{&sum.Failed, one.Failed},
		{&sum.Refused, one.Refused},
		{&sum.Evicted, one.Evicted},
		{&sum.RefusedKeys, one.RefusedKeys},
		{&sum.Lookups, one.Lookups},
		{&sum.LookupWaits, one.LookupWaits},
		{&sum.LookupsDropped, one.LookupsDropped},
	} {
		*counter.sum += counter.n
	}
	sum.MaxExcess, sum.SkewedClocks = max(sum.MaxExcess, one.MaxExcess), max(sum.SkewedClocks, one.SkewedClocks)
	sum.LagMS, sum.LagMaxMS = max(sum.LagMS, one.LagMS), max(sum.LagMaxMS, one.LagMaxMS)
	if math.Abs(one.ClockAheadMS) > math.Abs(sum.ClockAheadMS) {
		sum.ClockAheadMS = one.ClockAheadMS
	}
	sum.Up = sum.Up && one.Up
}
