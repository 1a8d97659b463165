package fleetredis

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/server/fleet"
)

var _ fleet.RegionStore = (*RegionStore)(nil)

//go:embed region.lua
var regionLua string

// A RegionStore is a [fleet.RegionStore] in the region's Redis. Create one with [NewRegionStore].
type RegionStore struct {
	store  *redisstore.Store
	prefix string
	script *redisstore.Script
}

// NewRegionStore returns the RegionStore of the fleet with the given name. An empty name means "fleet".
func NewRegionStore(store *redisstore.Store, name string) (*RegionStore, error) {
	prefix, err := keyPrefix(store.Prefix(), name)
	if err != nil {
		return nil, err
	}
	return &RegionStore{store: store, prefix: prefix + ":region", script: store.NewScript(regionLua)}, nil
}

// Report adds a node's consumption to the totals of the region. See [fleet.RegionStore].
func (s *RegionStore) Report(
	ctx context.Context, node string, hold time.Duration, records []fleet.NodeRecord,
	reported func(record int, r fleet.RegionRecord),
) (missed []int, err error) {
	groups, err := splitIntoGroups(len(records), func(i int) string { return records[i].Key })
	if err != nil {
		return indices(len(records)), err
	}
	var calls []redisstore.ScriptCall
	for _, g := range groups {
		c := redisstore.ScriptCall{Args: []string{"report", node, decimal(hold.Microseconds())}}
		base := s.prefix + groupTag(g.number)
		for _, i := range g.index {
			r := &records[i]
			learned := int64(0)
			if r.Learned {
				learned = 1
			}
			c.Keys = append(c.Keys, base+keyName(r.Key))
			c.Args = append(c.Args, decimal(r.Start), decimal(r.Window), decimal(r.Before), decimal(r.Total),
				decimal(r.Previous), decimal(r.Reported), decimal(learned), decimal(r.Keep.Milliseconds()))
		}
		calls = append(calls, c)
	}
	const perRecord = 6
	return s.run(ctx, groups, calls, perRecord, func(i int, v []int64) {
		reported(i, fleet.RegionRecord{
			IsSender: v[0] == 1, Learned: v[1] == 1, Start: v[2], Total: v[3], Previous: v[4], Now: v[5],
		})
	})
}

// Settle stores totals of other regions, and returns how much they have grown. See [fleet.RegionStore].
func (s *RegionStore) Settle(
	ctx context.Context, totals []fleet.RemoteTotal, growth func(total int, g fleet.Growth),
) (missed []int, err error) {
	groups, err := splitIntoGroups(len(totals), func(i int) string { return totals[i].Key })
	if err != nil {
		return indices(len(totals)), err
	}
	var calls []redisstore.ScriptCall
	for _, g := range groups {
		c := redisstore.ScriptCall{Args: []string{"settle"}}
		base := s.prefix + groupTag(g.number)
		for _, i := range g.index {
			t := &totals[i]
			c.Keys = append(c.Keys, base+keyName(t.Key))
			c.Args = append(c.Args, t.Region, decimal(t.Start), decimal(t.Window), decimal(t.Before), decimal(t.Total),
				decimal(t.Previous), decimal(t.SentAt), decimal(t.MaxTotal), decimal(t.MaxGrowth), decimal(t.Keep.Milliseconds()))
		}
		calls = append(calls, c)
	}
	const perTotal = 4
	return s.run(ctx, groups, calls, perTotal, func(i int, v []int64) {
		growth(i, fleet.Growth{Units: v[0], First: v[1] == 1, TooLarge: v[2] == 1, Fell: v[2] == 2, Previous: v[3]})
	})
}

// run makes one script call for each group, and calls each with the values of every key. A reply has size values per
// key.
func (s *RegionStore) run(
	ctx context.Context, groups []keyGroup, calls []redisstore.ScriptCall, size int, each func(i int, values []int64),
) (missed []int, err error) {
	for n, reply := range s.script.Run(ctx, calls...) {
		index := groups[n].index
		values, ok := integers(reply.Values)
		if reply.Err == nil && (!ok || len(values) != size*len(index)) {
			reply.Err = s.store.MalformedReply(calls[n].Keys[0])
		}
		if reply.Err != nil {
			missed, err = append(missed, index...), errors.Join(err, reply.Err)
			continue
		}
		for k, i := range index {
			each(i, values[k*size:(k+1)*size])
		}
	}
	return missed, err
}
