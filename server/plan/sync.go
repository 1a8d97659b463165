package plan

import (
	"math"
	"time"

	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/region"
)

// Settings of exchanges, as in package fleet/internal/exchange.
const (
	exchangesPerInterval = 4
	maxKeysPerExchange   = 4096
	// pausePart is the mean pause between two exchanges. Pauses are random, and up to a fifth shorter.
	pausePart = 0.9
	// Redis keeps notes for keepNotes seconds, or for the time in which the limit refills keepRefills times if that is
	// longer.
	keepNotes, keepRefills = 300, 12
)

// A keyLoad is the load of a node.
type keyLoad struct {
	keys float64 // keys of limits
	rate float64 // requests per second of each key
}

// load returns the load of a node at peak if requests are spread evenly.
func (p *Plan) load() keyLoad {
	in := p.Input
	return keyLoad{keys: in.Clients * float64(in.Limits), rate: in.Peak / p.Nodes / in.Clients}
}

// A traffic is what all nodes exchange through Redis each second.
type traffic struct {
	calls, notes float64
	changes      float64 // notes with new consumption
}

// traffic calculates the exchanges of nodes, each with the given load. A node makes several exchanges in an interval.
// In each, it sends notes on the keys that were used since the last one. In every second one, it also reads the notes
// of peers on keys that were used recently, which is a time in seconds. An exchange is one call for each group with
// keys. Lookups of new keys between exchanges are not counted; they are a few percent more.
func (p *Plan) traffic(load keyLoad, interval time.Duration, recent float64) traffic {
	pause := interval.Seconds() / exchangesPerInterval * pausePart
	rounds := p.line("exchanges of a node", 1/pause, "/s", "1 ÷ (%s s ÷ %d × %s of random pauses)",
		Number(interval.Seconds()), exchangesPerInterval, Number(pausePart))
	rate := p.line("requests for a key on a node", load.rate, "/s", "%s/s ÷ %s nodes ÷ %s clients",
		Number(p.Input.Peak), Number(p.Nodes), Number(p.Input.Clients))
	within := func(name string, seconds float64) float64 {
		return p.line(name, load.keys*-math.Expm1(-rate*seconds), "keys", "%s keys × (1 − e^−(%s/s × %s s))",
			Number(load.keys), Number(rate), Number(seconds))
	}
	changed := within("keys used since the last exchange", pause)
	read := within("keys of every second exchange", max(pause, recent))
	most := func(n float64) float64 { return min(n, maxKeysPerExchange) }
	if wait := (changed + read) / 2 / maxKeysPerExchange; wait > 1 {
		p.line("exchanges until a cold key has its turn", wait, "exchanges",
			"mean of both ÷ %d keys in an exchange; clients at their limits go first", maxKeysPerExchange)
	}
	groups := func(keys float64) float64 {
		return fleet.KeyGroups * (1 - math.Pow(1-1.0/fleet.KeyGroups, most(keys)))
	}
	var t traffic
	calls := p.line("calls of a node", rounds*(groups(changed)+groups(read))/2, "/s",
		"%s/s × the mean of %s and %s of %d groups with such keys", Number(rounds), Number(groups(changed)),
		Number(groups(read)), fleet.KeyGroups)
	notes := p.line("notes of a node", rounds*(most(changed)+most(read))/2, "/s", "%s/s × the mean of %s and %s keys",
		Number(rounds), Number(most(changed)), Number(most(read)))
	t.changes = rounds * most(changed) * p.Nodes
	t.calls = p.line("calls", calls*p.Nodes, "/s", "%s/s × %s nodes", Number(calls), Number(p.Nodes))
	t.notes = p.line("notes", notes*p.Nodes, "/s", "%s/s × %s nodes", Number(notes), Number(p.Nodes))
	return t
}

// relay calculates the shards, memory and bandwidth of a Redis through which authors exchange notes. used is the number
// of requests per second of a key of each author.
func (p *Plan) relay(c Constants, t traffic, authors float64, load keyLoad) (shards float64) {
	in := p.Input
	keep := max(keepNotes, keepRefills*float64(in.Limit.Capacity())/p.rate())
	used := -math.Expm1(-load.rate * keep) // share of keys that an author used while Redis keeps notes
	others := p.line("notes of others on a key", (authors-1)*used, "notes", "(%s − 1) × %s that wrote one within %s s",
		Number(authors), Number(used), Number(keep))
	perCall := c.SyncCallWork.Value + t.notes/t.calls*(c.NoteWork.Value+others*c.PeerNoteWork.Value)
	p.line("work of a call", perCall, "µs", "%s µs + %s notes × (%s µs + %s × %s µs)", Number(c.SyncCallWork.Value),
		Number(t.notes/t.calls), Number(c.NoteWork.Value), Number(others), Number(c.PeerNoteWork.Value))
	byCalls := p.line("shards for calls", math.Ceil(t.calls*perCall/1e6/in.Utilization), "shards",
		"⌈%s/s × %s µs ÷ 1M µs ÷ %s utilization⌉", Number(t.calls), Number(perCall), Number(in.Utilization))
	keys := p.line("keys with notes", load.keys*-math.Expm1(-load.rate*authors*keep), "keys",
		"%s keys that were used within %s s", Number(load.keys), Number(keep))
	perKey := c.NoteKeyBytes.Value + max(1, authors*used)*c.NoteBytes.Value
	bytes := p.line("memory of notes", keys*perKey, "bytes", "%s × (%s + %s notes × %s bytes)", Number(keys),
		Number(c.NoteKeyBytes.Value), Number(max(1, authors*used)), Number(c.NoteBytes.Value))
	byMemory := p.line("shards for memory", math.Ceil(bytes/in.ShardMemory), "shards", "⌈%s ÷ %s⌉", Bytes(bytes),
		Bytes(in.ShardMemory))
	how := "max(%s, %s), each with a replica"
	if shards = max(byCalls, byMemory); shards > fleet.KeyGroups {
		how += "; more than the groups of keys, so share limits by lease or exact instead"
	}
	received := t.changes * (authors - 1) * used
	p.line("bytes to and from it",
		t.calls*c.SyncCallBytes.Value+t.notes*c.SentNoteBytes.Value+received*c.ReadNoteBytes.Value, "bytes/s",
		"%s calls × %s + %s notes × %s + %s received × %s bytes", Number(t.calls), Number(c.SyncCallBytes.Value),
		Number(t.notes), Number(c.SentNoteBytes.Value), Number(received), Number(c.ReadNoteBytes.Value))
	return p.line("shards", shards, "shards", how, Number(byCalls), Number(byMemory))
}

// sync calculates the Redis through which nodes exchange updates in async mode. If there are several regions, nodes of
// all regions use the global store.
func (p *Plan) sync(c Constants) {
	p.section = "redis"
	if p.Input.Regions == 1 {
		load := p.load()
		t := p.traffic(load, async.DefaultInterval, async.DefaultInterval.Seconds())
		p.Shards = p.relay(c, t, p.Nodes, load)
		return
	}
	p.Shards = p.line("Redis shards", float64(p.Input.Regions), "shards", "one in each of %d regions, for membership",
		p.Input.Regions)
	p.section = "global store"
	load := p.load()
	t := p.traffic(load, region.DefaultInterval, region.DefaultInterval.Seconds())
	p.GlobalShards = p.relay(c, t, p.Nodes, load)
}

// totals calculates the traffic of limits that regions share, with scope: global. A region adds up the units of its
// nodes in its own Redis, and exchanges totals with the other regions through the global store. totals returns the
// shards of each region that this needs.
func (p *Plan) totals(c Constants) (shards float64) {
	in := p.Input
	p.section = "global store"
	load := p.load()
	t := p.traffic(load, region.DefaultInterval, 2*region.DefaultInterval.Seconds())
	ofRegion := keyLoad{load.keys, load.rate * p.Nodes / float64(in.Regions)}
	p.GlobalShards = p.relay(c, t, float64(in.Regions), ofRegion)

	p.section = "totals of regions"
	calls := p.line("calls in a region", totalCalls*t.calls/float64(in.Regions), "/s",
		"%d for each of %s/s to the global store ÷ %d regions", totalCalls, Number(t.calls), in.Regions)
	perCall := p.line("work of such a call", c.SyncCallWork.Value+t.notes/t.calls*c.TotalWork.Value, "µs",
		"%s µs + %s keys × %s µs", Number(c.SyncCallWork.Value), Number(t.notes/t.calls), Number(c.TotalWork.Value))
	charges := p.line("charges in a region", t.notes/float64(in.Regions), "/s",
		"at most one for each of %s/s notes ÷ %d regions", Number(t.notes), in.Regions)
	p.line("bytes to and from the Redis of a region",
		calls*(c.SyncCallBytes.Value+t.notes/t.calls*c.TotalBytes.Value)+charges*c.CallBytes.Value, "bytes/s",
		"%s calls × (%s + %s keys × %s) + %s charges × %s bytes", Number(calls), Number(c.SyncCallBytes.Value),
		Number(t.notes/t.calls), Number(c.TotalBytes.Value), Number(charges), Number(c.CallBytes.Value))
	busy := calls*perCall/1e6 + charges/c.ShardCalls.Value
	return p.line("shards in a region", math.Ceil(busy/in.Utilization), "shards",
		"⌈(%s/s × %s µs ÷ 1M µs + %s/s ÷ %s/s) ÷ %s utilization⌉", Number(calls), Number(perCall),
		Number(charges), Number(c.ShardCalls.Value), Number(in.Utilization))
}

// totalCalls is the number of calls of the region's Redis for a call of the global store: one adds a node's units to
// the totals, and one settles the totals of other regions.
const totalCalls = 2
