package plan

import "math"

// store calculates the Redis of each region for the modes in which it counts: exact and lease.
func (p *Plan) store(c Constants) {
	in := p.Input
	regions := float64(in.Regions)
	p.section = "redis of a region"
	calls := p.line("calls in a region", p.calls(c)/regions, "/s", "÷ %d regions", in.Regions)
	work := 1 + c.LimitWork.Value*float64(in.Limits-1)
	perShard := p.line("planned calls per shard", c.ShardCalls.Value/work*in.Utilization, "/s",
		"%s/s ÷ %s work × %s utilization",
		Number(c.ShardCalls.Value), Number(work), Number(in.Utilization))
	byCalls := p.line("shards for calls", math.Ceil(calls/perShard), "shards",
		"⌈%s ÷ %s⌉", Number(calls), Number(perShard))
	bytes := p.line("memory of the counters of a region", in.Clients*float64(in.Limits)*c.ShardBytes.Value, "bytes",
		"%s clients × %d limits × %s bytes", Number(in.Clients), in.Limits, Number(c.ShardBytes.Value))
	byMemory := p.line("shards for memory", math.Ceil(bytes/in.ShardMemory), "shards",
		"⌈%s ÷ %s⌉", Bytes(bytes), Bytes(in.ShardMemory))
	shards := p.line("shards in a region", max(byCalls, byMemory), "shards",
		"max(%s, %s), each with a replica", Number(byCalls), Number(byMemory))
	all := p.line("bytes to and from it at peak", calls*c.CallBytes.Value, "bytes/s",
		"%s calls/s × %s bytes", Number(calls), Number(c.CallBytes.Value))
	p.line("bytes per shard", all/shards, "bytes/s", "÷ %s shards", Number(shards))
	totals := 0.0
	if in.Regions > 1 {
		totals = p.totals(c)
	}
	p.section = "redis in all"
	p.Shards = p.line("Redis shards", (shards+totals)*regions, "shards", "(%s + %s for totals) × %d regions",
		Number(shards), Number(totals), in.Regions)
}

// calls returns the calls per second to the Redis of all regions at peak.
func (p *Plan) calls(c Constants) float64 {
	in := p.Input
	if in.Mode == Exact {
		return p.line("calls", in.Peak, "/s", "one call for all limits of a request")
	}
	cold := p.line("calls for keys without a lease", in.Peak*(1-in.Hot), "/s",
		"%s/s × (1 − %s hot)", Number(in.Peak), Number(in.Hot))
	hot := min(p.hotKeys*p.Nodes*c.LeaseCalls.Value, in.Peak*in.Hot)
	p.line("calls for leases", hot, "/s", "min(%s keys × %s nodes × %s/s, %s/s of requests on them)",
		Number(p.hotKeys), Number(p.Nodes), Number(c.LeaseCalls.Value), Number(in.Peak*in.Hot))
	return p.line("calls", cold+hot, "/s", "%s + %s", Number(cold), Number(hot))
}

func (p *Plan) memory(c Constants) {
	in := p.Input
	regions, limits := float64(in.Regions), float64(in.Limits)
	p.section = "memory"
	if in.Mode != Async {
		perClient := p.line("per client in Redis", limits*c.ShardBytes.Value, "bytes",
			"%d limits × %s bytes", in.Limits, Number(c.ShardBytes.Value))
		all := p.line("in all", perClient*in.Clients*regions, "bytes",
			"%s bytes × %s clients × %d regions, if clients use all of them",
			Number(perClient), Number(in.Clients), in.Regions)
		p.line("per shard", all/p.Shards, "bytes", "÷ %s shards", Number(p.Shards))
		p.line("per client on a node that counts alone", limits*c.NodeBytes.Value, "bytes",
			"%d limits × %s bytes, with consistency: local", in.Limits, Number(c.NodeBytes.Value))
	}
	if in.Mode == Async || in.Regions > 1 {
		p.ledger(c)
	}
}

// ledger calculates the memory of a node for the counters that it shares with peers.
func (p *Plan) ledger(c Constants) {
	in := p.Input
	peers := 0.0 // with the Redis of the region, records of other nodes and regions are in Redis
	if in.Mode == Async {
		peers = p.Nodes - 1
	}
	load := p.load()
	keep := max(nodeKeep, float64(in.Limit.Capacity())/p.rate())
	keys := p.line("counters that a node keeps", load.keys*(1-math.Exp(-load.rate*keep)), "keys",
		"%s keys that were used within %s s", Number(load.keys), Number(keep))
	used := min(load.rate*keep, 1) * peers
	bytes := p.line("bytes of a counter", c.LedgerBytes.Value+used*c.PeerBytes.Value, "bytes",
		"%s + %s for each of %s peers that used it", Number(c.LedgerBytes.Value), Number(c.PeerBytes.Value), Number(used))
	p.line("per node", keys*bytes, "bytes", "%s keys × %s bytes; fleet.max_keys must allow as many",
		Number(keys), Number(bytes))
	p.line("in all nodes", keys*bytes*p.Nodes, "bytes", "%s × %s nodes", Bytes(keys*bytes), Number(p.Nodes))
}

// nodeKeep is the time after which a node drops an unused counter that is full again, in seconds: twice
// fleet.DefaultIdle.
const nodeKeep = 120
