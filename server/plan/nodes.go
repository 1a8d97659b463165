package plan

import "math"

// nodes calculates how many nodes the peak needs.
func (p *Plan) nodes(c Constants) {
	in := p.Input
	p.section = "nodes"
	perNode := p.decisions(c)
	region := p.line("peak per region", in.Peak/float64(in.Regions), "/s",
		"%s/s ÷ %d regions", Number(in.Peak), in.Regions)
	busy := p.line("busy nodes per region", math.Ceil(region/perNode), "nodes",
		"⌈%s ÷ %s⌉", Number(region), Number(perNode))
	p.NeededNodes = busy * float64(in.Regions)
	p.Nodes = (busy + 1) * float64(in.Regions)
	if in.Nodes > 0 {
		how := "as given; (%s + 1 spare) × %d regions are needed"
		if float64(in.Nodes) < p.NeededNodes {
			how = "TOO FEW, as given; (%s + 1 spare) × %d regions are needed"
		}
		p.Nodes = p.line("nodes", float64(in.Nodes), "nodes", how, Number(busy), in.Regions)
		return
	}
	p.line("nodes", p.Nodes, "nodes", "(%s + 1 spare) × %d regions", Number(busy), in.Regions)
}

// decisions calculates the decisions per second that are planned for a node. The mode says which of them need a call
// of Redis: all with Exact, none with Async, and with Lease those for keys without a lease and those that get leases.
func (p *Plan) decisions(c Constants) float64 {
	in := p.Input
	speed := func(s *NodeSpeed) float64 {
		return p.line(s.Decisions.Name, s.Decisions.Value/s.work(in.Limits), "/s", "%s/s ÷ %s work of %d limits",
			Number(s.Decisions.Value), Number(s.work(in.Limits)), in.Limits)
	}
	const name = "planned decisions per node"
	switch in.Mode {
	case Exact:
		inRedis := speed(&c.InRedis)
		return p.line(name, inRedis*in.Utilization, "/s", "%s/s × %s utilization, all in Redis", Number(inRedis),
			Number(in.Utilization))
	case Async:
		onNode := speed(&c.OnNode)
		return p.line(name, onNode*in.Utilization, "/s", "%s/s × %s utilization, all on the node", Number(onNode),
			Number(in.Utilization))
	}
	onNode, inRedis := speed(&c.OnNode), speed(&c.InRedis)
	p.hotKeys = p.line("hot keys at once", math.Ceil(in.Peak*in.Hot/p.rate()), "keys",
		"⌈%s/s × %s hot ÷ the rate of %v⌉", Number(in.Peak), Number(in.Hot), in.Limit)
	leases := p.line("calls of a node for leases", p.hotKeys*c.LeaseCalls.Value, "/s", "%s keys × %s/s, at most",
		Number(p.hotKeys), Number(c.LeaseCalls.Value))
	perNode := (in.Utilization - leases*(1/inRedis-1/onNode)) / ((1-in.Hot)/inRedis + in.Hot/onNode)
	if perNode*in.Hot < leases {
		return p.line(name, inRedis*in.Utilization, "/s",
			"%s/s × %s utilization, all in Redis, because leases need as many calls", Number(inRedis), Number(in.Utilization))
	}
	return p.line(name, perNode, "/s", "(%s utilization − %s × (1 ÷ %s − 1 ÷ %s)) ÷ (%s in Redis ÷ %s + %s hot ÷ %s)",
		Number(in.Utilization), Number(leases), Number(inRedis), Number(onNode), Number(1-in.Hot), Number(inRedis),
		Number(in.Hot), Number(onNode))
}
