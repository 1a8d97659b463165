package node

import (
	"context"
	"errors"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/async"
	"github.com/headgate/headgate/fleet/region"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/telemetry"
)

// abroad is how a node shares limits with other regions: one limiter for each way in which limits are counted inside a
// region.
type abroad struct {
	store        *redisstore.Store // what all regions share
	exact, lease *tardy[*region.Limiter]
	async        *tardy[*async.Limiter]
}

// abroadMode is what this is called where modes are told apart.
const abroadMode = "global"

func (a *abroad) open(ctx context.Context, k *company) error {
	log := k.log.With("mode", abroadMode)
	a.exact = newTardy[*region.Limiter](k.stores.guard)
	a.lease = newTardy[*region.Limiter](k.lease)
	a.async = newTardy[*async.Limiter](k.async)
	for _, r := range []struct {
		to     *tardy[*region.Limiter]
		inside headgate.Limiter
		mode   rules.Consistency
	}{{a.exact, k.stores.guard, rules.Exact}, {a.lease, k.lease, rules.Lease}} {
		create := func(ctx context.Context) (*region.Limiter, error) { return a.region(ctx, k, r.inside, r.mode) }
		if err := r.to.open(ctx, create, log); err != nil {
			return err
		}
	}
	create := func(ctx context.Context) (*async.Limiter, error) {
		return k.exchange(ctx, a.store, a.name(k, rules.Async), k.config.Fleet.GlobalInterval, abroadMode)
	}
	return a.async.open(ctx, create, log)
}

// name is under which nodes of all regions meet in the store that they share.
func (a *abroad) name(k *company, mode rules.Consistency) string {
	return k.name() + ":" + abroadMode + ":" + mode.String()
}

// region returns a limiter that counts inside this region as another does, and tells the others.
func (a *abroad) region(ctx context.Context, k *company, inside headgate.Limiter, mode rules.Consistency) (*region.Limiter, error) {
	secret, err := a.store.FleetSecret(ctx)
	if err != nil {
		return nil, err
	}
	name := a.name(k, mode)
	o := region.Options{Region: k.config.Region, Node: k.id, Interval: k.config.Fleet.GlobalInterval, OnEvent: k.tells(abroadMode)}
	book, err := k.stores.redis.RegionBook(name)
	if err != nil {
		return nil, err
	}
	board, err := a.store.Board(redisstore.BoardOptions{Name: name, Author: o.Author(), Mark: fleet.Fingerprint(secret)})
	if err != nil {
		return nil, err
	}
	g, err := region.New(k.ledger(secret), inside, book, board, o)
	if err == nil {
		k.syncClock(ctx, g)
	}
	return g, err
}

func (a *abroad) modes() map[rules.Consistency]headgate.Limiter {
	return map[rules.Consistency]headgate.Limiter{
		rules.Exact: a.exact, rules.Lease: a.lease, rules.Async: borrower[*async.Limiter]{a.async},
	}
}

func (a *abroad) close() error {
	var parts []func(context.Context) error
	for _, r := range []*tardy[*region.Limiter]{a.exact, a.lease} {
		if r != nil {
			parts = append(parts, r.close)
		}
	}
	if a.async != nil {
		parts = append(parts, a.async.close)
	}
	return errors.Join(together(parts...), a.store.Close())
}

// figures are those of all ways together.
func (a *abroad) figures() telemetry.Sync {
	all := telemetry.Sync{Mode: abroadMode, Up: true}
	for _, r := range []*tardy[*region.Limiter]{a.exact, a.lease} {
		if g, ok := r.get(); ok {
			s := g.Stats()
			n := exchanged(abroadMode, s.ExchangeStats)
			n.Lost = s.Lost
			if s.StoreClockOff.Abs() >= fleet.MaxClockSkew {
				n.ClocksOff++
			}
			addSync(&all, n)
		} else {
			all.Up = false
		}
	}
	if g, ok := a.async.get(); ok {
		addSync(&all, exchanged(abroadMode, g.Stats()))
	} else {
		all.Up = false
	}
	return all
}

func addSync(to *telemetry.Sync, n telemetry.Sync) {
	to.Keys, to.Waiting = to.Keys+n.Keys, to.Waiting+n.Waiting
	to.Applied, to.Over, to.OverMax = to.Applied+n.Applied, to.Over+n.Over, max(to.OverMax, n.OverMax)
	to.Lost += n.Lost
	to.Lag, to.LagMax = max(to.Lag, n.Lag), max(to.LagMax, n.LagMax)
	to.Sent, to.Received, to.Failures, to.Refused = to.Sent+n.Sent, to.Received+n.Received, to.Failures+n.Failures, to.Refused+n.Refused
	to.ClocksOff = max(to.ClocksOff, n.ClocksOff)
	if n.Ahead.Abs() > to.Ahead.Abs() {
		to.Ahead = n.Ahead
	}
	to.Evicted, to.Full = to.Evicted+n.Evicted, to.Full+n.Full
	to.Lookups, to.LookupWaits = to.Lookups+n.Lookups, to.LookupWaits+n.LookupWaits
	to.LookupsDropped += n.LookupsDropped
	to.Up = to.Up && n.Up
}
