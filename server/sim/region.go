package sim

import (
	"cmp"
	"context"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/region"
	"github.com/headgate/headgate/server/sim/scenario"
)

// connectRegions creates the regions, and the network between them.
func (w *world) connectRegions() {
	w.regions = make([]nodeGroup, w.scenario.CountRegions())
	if r := w.scenario.Regions; r != nil {
		normal := scenario.Network{Delay: r.Delay, Distribution: r.Distribution, Loss: r.Loss}
		w.between = newNetwork(normal, rand.New(rand.NewPCG(w.nodeSeed, 4)))
	}
}

// shards returns the number of servers of each Redis for a group of clients.
func (w *world) shards() int { return max(1, w.scenario.Redis.Shards/w.scenario.Groups) }

// serversOf returns the Redis servers of a region.
func (w *world) serversOf(region int) []*redisServer {
	shards := w.shards()
	return w.redis[region*shards : (region+1)*shards]
}

// exchangeServers returns the Redis servers through which nodes exchange notes. If there are several regions, these
// are the servers of the global store.
func (w *world) exchangeServers() []*redisServer {
	return w.redis[len(w.redis)-w.shards():]
}

// regionsOf returns the regions that a fault affects. If the fault names no regions, it affects the regions from 0 to
// defaultCount-1.
func (w *world) regionsOf(f *scenario.Fault, defaultCount int) []int {
	if len(f.Regions) > 0 {
		return f.Regions
	}
	list := make([]int, defaultCount)
	for i := range list {
		list[i] = i
	}
	return list
}

// networkTo returns the network between a node and a Redis server.
func (w *world) networkTo(n *node, s *redisServer) *network {
	if n.region == s.region {
		return w.network
	}
	return w.between
}

// reaches reports whether a node and a Redis server reach each other.
func (w *world) reaches(n *node, s *redisServer) bool {
	return w.network.reachesRedis(n.slot) && (n.region == s.region || w.between.connects(n.region, s.region))
}

// regionLimiter returns a limiter of a node that shares its limits with other regions. inside is the node's limiter
// inside its own region.
func (w *world) regionLimiter(n *node, inside headgate.Limiter) (headgate.Limiter, error) {
	o := region.Options{
		Region: "region-" + strconv.Itoa(n.region), Node: n.host.Name, Interval: w.scenario.Regions.SyncInterval,
		Rand: n.random.Int64N, OnEvent: func(fleet.Event) {},
	}
	totals := &regionStoreClient{redisClient{w, n, w.serversOf(n.region)}}
	return startExchange(w, n, o.Author(), func(x fleet.Exchange) (*region.Limiter, error) {
		return region.New(w.ledgerOptions(n), inside, totals, x, o)
	})
}

// A regionStoreClient is a node's access to the totals in its region's Redis.
type regionStoreClient struct{ redisClient }

var _ fleet.RegionStore = (*regionStoreClient)(nil)

// Report implements fleet.RegionStore.
func (c *regionStoreClient) Report(
	ctx context.Context, node string, hold time.Duration, records []fleet.NodeRecord,
	reported func(record int, r fleet.RegionRecord),
) (missed []int, err error) {
	return callParts(ctx, c, records, func(r *fleet.NodeRecord) string { return r.Key },
		func(s *redisServer, part []fleet.NodeRecord, each func(int, fleet.RegionRecord)) error {
			_, err := s.totals.Report(ctx, node, hold, part, each)
			return err
		}, reported)
}

// Settle implements fleet.RegionStore.
func (c *regionStoreClient) Settle(
	ctx context.Context, totals []fleet.RemoteTotal, growth func(total int, g fleet.Growth),
) (missed []int, err error) {
	return callParts(ctx, c, totals, func(t *fleet.RemoteTotal) string { return t.Key },
		func(s *redisServer, part []fleet.RemoteTotal, each func(int, fleet.Growth)) error {
			_, err := s.totals.Settle(ctx, part, each)
			return err
		}, growth)
}

// Approximate sizes, in bytes, of a call of region.lua, of a key's arguments, and of its results.
const (
	regionCallBytes  = 95
	regionItemBytes  = 145
	regionReplyBytes = 46
)

// The time that a server needs for a call of region.lua and for each of its keys, in percent of the time of a call that
// decides. They were measured like exchangePercent.
const (
	regionPercent    = 80
	regionKeyPercent = 100
)

// callParts sends items to the servers of their keys, with one call for each group of keys, and calls result with each
// reply. missed contains the indices of the items that got no reply.
func callParts[Item, Reply any](
	ctx context.Context, c *regionStoreClient, items []Item, keyOf func(*Item) string,
	run func(*redisServer, []Item, func(int, Reply)) error, result func(int, Reply),
) (missed []int, err error) {
	parts, groups := make([][]int, len(c.servers)), make([]uint64, len(c.servers))
	for i := range items {
		group := int(keyOf(&items[i])[0] % fleet.KeyGroups)
		server := group * len(c.servers) / fleet.KeyGroups
		parts[server] = append(parts[server], i)
		groups[server] |= 1 << group
	}
	replies := make([]Reply, len(items))
	errs := make([]error, len(c.servers))
	c.eachPart(parts, func(server int, part []int) {
		sent := make([]Item, len(part))
		for j, i := range part {
			sent[j] = items[i]
		}
		s, calls := c.servers[server], bits.OnesCount64(groups[server])
		var runErr error
		callErr := c.pipeline(ctx, s, calls, calls*regionCallBytes+len(part)*regionItemBytes,
			func(time.Time) (time.Duration, int) {
				runErr = run(s, sent, func(j int, r Reply) { replies[part[j]] = r })
				return c.world.serviceTime(regionPercent*calls + regionKeyPercent*len(part)), len(part) * regionReplyBytes
			})
		errs[server] = cmp.Or(callErr, runErr)
	})
	for server, part := range parts {
		if errs[server] != nil {
			missed, err = append(missed, part...), errs[server]
			continue
		}
		for _, i := range part {
			result(i, replies[i])
		}
	}
	return missed, err
}
