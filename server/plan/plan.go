package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate"
)

// A Mode is how nodes share limits.
type Mode string

// The modes that a plan can be made for.
const (
	Exact Mode = "exact"
	Lease Mode = "lease"
	Async Mode = "async"
)

// Modes lists all modes.
var Modes = []Mode{Exact, Lease, Async}

// Input describes the load and the machines.
type Input struct {
	// Clients is the number of clients that are active in a day. Each has its own counters.
	Clients float64 `json:"clients"`
	// Average and Peak are requests per second.
	Average float64 `json:"average_per_second"`
	Peak    float64 `json:"peak_per_second"`
	// Limits is the number of limits of each request.
	Limits int `json:"limits"`
	// Limit is the limit of one client. Over-admission is calculated from it.
	Limit headgate.Limit `json:"-"`
	// Offered is the highest rate of requests of a client, as a multiple of its limit.
	Offered float64 `json:"offered"`
	Mode    Mode    `json:"mode"`
	Regions int     `json:"regions"`
	// RegionDelay is the one-way latency between regions.
	RegionDelay time.Duration `json:"-"`
	// Utilization is the share of a machine's capacity that is used at peak.
	Utilization float64 `json:"utilization"`
	// Hot is the share of requests on keys that are hot enough for leases.
	Hot float64 `json:"hot"`
	// ShardMemory is the memory of a Redis shard for counters, in bytes.
	ShardMemory float64 `json:"shard_memory_bytes"`
}

// Validate returns an error for the first invalid field.
func (in Input) Validate() error {
	switch {
	case in.Clients < 1 || in.Clients > 1e12:
		return fmt.Errorf("%g clients: want 1 to 1T", in.Clients)
	case in.Average <= 0 || in.Average > 1e12:
		return fmt.Errorf("%g requests per second: want more than 0, up to 1T", in.Average)
	case in.Peak < in.Average || in.Peak > 1e12:
		return fmt.Errorf("a peak of %g requests per second: want at least the average of %g, up to 1T", in.Peak, in.Average)
	case in.Limits < 1 || in.Limits > headgate.MaxChecks:
		return fmt.Errorf("%d limits: want 1 to %d", in.Limits, headgate.MaxChecks)
	case in.Regions < 1 || in.Regions > 100:
		return fmt.Errorf("%d regions: want 1 to 100", in.Regions)
	case !(in.Utilization > 0 && in.Utilization <= 1): // NaN is refused too
		return fmt.Errorf("a utilization of %g: want more than 0, up to 1", in.Utilization)
	case !(in.Hot >= 0 && in.Hot <= 1):
		return fmt.Errorf("a hot share of %g: want 0 to 1", in.Hot)
	case !(in.Offered >= 1 && in.Offered <= 1e12):
		return fmt.Errorf("clients that offer %g times their limit: want at least 1, up to 1T", in.Offered)
	case in.RegionDelay < 0:
		return fmt.Errorf("a delay of %v between regions: want 0 or more", in.RegionDelay)
	case in.ShardMemory < 1<<20:
		return fmt.Errorf("%g bytes per shard: want at least 1 MiB", in.ShardMemory)
	case in.Mode != Exact && in.Mode != Lease && in.Mode != Async:
		return fmt.Errorf("mode %q: want one of %v", in.Mode, Modes)
	case in.Limit.Period == 0:
		return fmt.Errorf("limit %v has no rate: want one such as 100/s", in.Limit)
	}
	return in.Limit.Validate()
}

// A Line is one step of the calculation.
type Line struct {
	Section string  `json:"section"`
	Name    string  `json:"name"`
	How     string  `json:"how"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
}

// A Plan has the steps of the calculation and the results.
type Plan struct {
	Input     Input      `json:"input"`
	Limit     string     `json:"limit"`
	Constants []Constant `json:"constants"`
	Lines     []Line     `json:"lines"`
	Nodes     float64    `json:"nodes"`
	Shards    float64    `json:"redis_shards"`
	// OverAdmission is the largest number of units above its limit that a client can get.
	OverAdmission float64 `json:"over_admission_units"`
	// AddedLatency is the median time that a decision adds, in microseconds.
	AddedLatency float64 `json:"added_latency_us"`

	section string
}

// The settings of nodes that plans assume.
const (
	leaseTTL     = 0.1 // seconds
	syncInterval = 0.1 // seconds
)

func (p *Plan) line(name string, value float64, unit, how string, args ...any) float64 {
	p.Lines = append(p.Lines, Line{p.section, name, fmt.Sprintf(how, args...), value, unit})
	return value
}

// New calculates a plan.
func New(in Input, c Constants) (*Plan, error) {
	if err := in.Validate(); err != nil {
		return nil, err
	}
	p := &Plan{Input: in, Limit: in.Limit.String(), Constants: c.List()}
	p.nodes(c)
	calls := p.calls(c)
	p.shards(c, calls)
	p.memory(c)
	p.bandwidth(c, calls)
	p.overAdmission()
	p.latency(c)
	return p, nil
}

func (p *Plan) nodes(c Constants) {
	in := p.Input
	p.section = "nodes"
	perNode := p.line("planned decisions per node", c.NodeDecisions.Value*in.Utilization, "/s", "%s/s × %s utilization",
		Number(c.NodeDecisions.Value), Number(in.Utilization))
	region := p.line("peak per region", in.Peak/float64(in.Regions), "/s",
		"%s/s ÷ %d regions", Number(in.Peak), in.Regions)
	busy := p.line("busy nodes per region", math.Ceil(region/perNode), "nodes",
		"⌈%s ÷ %s⌉", Number(region), Number(perNode))
	p.Nodes = p.line("nodes", (busy+1)*float64(in.Regions), "nodes",
		"(%s + 1 spare) × %d regions", Number(busy), in.Regions)
}

// calls returns the calls per second to Redis at peak.
func (p *Plan) calls(c Constants) float64 {
	in := p.Input
	p.section = "redis"
	switch in.Mode {
	case Lease:
		cold := p.line("calls for keys without a lease", in.Peak*(1-in.Hot), "/s",
			"%s/s × (1 − %s hot)", Number(in.Peak), Number(in.Hot))
		rate := float64(in.Limit.Count) / in.Limit.Period.Seconds()
		hotKeys := p.line("hot keys at once", math.Ceil(in.Peak*in.Hot/rate), "keys",
			"⌈%s/s × %s hot ÷ the rate of %v⌉", Number(in.Peak), Number(in.Hot), in.Limit)
		hot := min(hotKeys*p.Nodes*c.LeaseCalls.Value, in.Peak*in.Hot)
		p.line("calls for leases", hot, "/s", "min(%s keys × %s nodes × %s/s, %s/s of requests on them)",
			Number(hotKeys), Number(p.Nodes), Number(c.LeaseCalls.Value), Number(in.Peak*in.Hot))
		return p.line("calls", cold+hot, "/s", "%s + %s", Number(cold), Number(hot))
	case Async:
		return p.line("calls", p.Nodes/syncInterval, "/s",
			"%s nodes ÷ %s s between updates", Number(p.Nodes), Number(syncInterval))
	}
	return p.line("calls", in.Peak, "/s", "one call for all limits of a request")
}

func (p *Plan) shards(c Constants, calls float64) {
	in := p.Input
	work := 1 + c.LimitWork.Value*float64(in.Limits-1)
	if in.Mode == Async {
		work = 1
	}
	perShard := p.line("planned calls per shard", c.ShardCalls.Value/work*in.Utilization, "/s",
		"%s/s ÷ %s work × %s utilization",
		Number(c.ShardCalls.Value), Number(work), Number(in.Utilization))
	byCalls := p.line("shards for calls", math.Ceil(calls/perShard), "shards",
		"⌈%s ÷ %s⌉", Number(calls), Number(perShard))
	if in.Mode == Async {
		p.Shards = p.line("Redis shards", max(byCalls, 1)*float64(in.Regions), "shards",
			"%s × %d regions", Number(max(byCalls, 1)), in.Regions)
		return
	}
	bytes := p.line("memory of all counters in Redis", in.Clients*float64(in.Limits)*c.ShardBytes.Value, "bytes",
		"%s clients × %d limits × %s bytes", Number(in.Clients), in.Limits, Number(c.ShardBytes.Value))
	byMemory := p.line("shards for memory", math.Ceil(bytes/in.ShardMemory), "shards",
		"⌈%s ÷ %s⌉", Bytes(bytes), Bytes(in.ShardMemory))
	p.Shards = p.line("Redis shards", max(byCalls, byMemory), "shards",
		"max(%s, %s), each with a replica", Number(byCalls), Number(byMemory))
}

func (p *Plan) memory(c Constants) {
	in := p.Input
	p.section = "memory"
	if in.Mode == Async {
		perClient := p.line("per client on a node", float64(in.Limits)*c.NodeBytes.Value, "bytes",
			"%d limits × %s bytes", in.Limits, Number(c.NodeBytes.Value))
		node := p.line("per node, if it sees all clients of its region", perClient*in.Clients/float64(in.Regions), "bytes",
			"%s bytes × %s clients ÷ %d regions", Number(perClient), Number(in.Clients), in.Regions)
		p.line("in all", node*p.Nodes, "bytes", "%s × %s nodes", Bytes(node), Number(p.Nodes))
		return
	}
	perClient := p.line("per client in Redis", float64(in.Limits)*c.ShardBytes.Value, "bytes",
		"%d limits × %s bytes", in.Limits, Number(c.ShardBytes.Value))
	p.line("in all", perClient*in.Clients, "bytes", "%s bytes × %s clients", Number(perClient), Number(in.Clients))
	p.line("per shard", perClient*in.Clients/p.Shards, "bytes", "÷ %s shards", Number(p.Shards))
}

func (p *Plan) bandwidth(c Constants, calls float64) {
	in := p.Input
	p.section = "bandwidth"
	if in.Mode == Async {
		sent := p.line("sent by a node at peak", in.Peak/p.Nodes*c.UpdateBytes.Value, "bytes/s",
			"%s/s ÷ %s nodes × %s bytes",
			Number(in.Peak), Number(p.Nodes), Number(c.UpdateBytes.Value))
		p.line("received by a node at peak", sent*(p.Nodes-1), "bytes/s", "from %s peers", Number(p.Nodes-1))
		return
	}
	all := p.line("to and from Redis at peak", calls*c.CallBytes.Value, "bytes/s",
		"%s calls/s × %s bytes", Number(calls), Number(c.CallBytes.Value))
	p.line("per shard", all/p.Shards, "bytes/s", "÷ %s shards", Number(p.Shards))
}

func (p *Plan) overAdmission() {
	in := p.Input
	p.section = "over-admission"
	rate := float64(in.Limit.Count) / in.Limit.Period.Seconds()
	burst := float64(in.Limit.Capacity())
	switch in.Mode {
	case Exact:
		p.line("per client", 0, "units",
			"none while Redis keeps its data; a failover that loses it gives %s units once", Number(burst))
	case Lease:
		p.OverAdmission = p.line("per client, within any interval", rate*leaseTTL, "units",
			"%s/s × %s s of a lease; none in total", Number(rate), Number(leaseTTL))
	case Async:
		delay := p.delay()
		age := p.line("greatest age of an update, S", syncInterval+2*delay, "s",
			"%s s + 2 × %s s", Number(syncInterval), Number(delay))
		nodes := p.line("by the number of nodes", (p.Nodes-1)*(burst+rate*age), "units", "(%s − 1) × (%s + %s/s × %s s)",
			Number(p.Nodes), Number(burst), Number(rate), Number(age))
		offered := p.line("by the offered rate", (in.Offered-1)*rate*age, "units",
			"(%s − 1) × %s/s × %s s", Number(in.Offered), Number(rate), Number(age))
		p.OverAdmission = p.line("per client, then repaid", min(nodes, offered), "units", "the smaller one")
	}
}

// nodeDelay is the delay between nodes of one region, in seconds.
const nodeDelay = 0.001

// delay returns the time of a message between nodes, in seconds.
func (p *Plan) delay() float64 {
	if p.Input.Regions > 1 {
		return p.Input.RegionDelay.Seconds()
	}
	return nodeDelay
}

func (p *Plan) latency(c Constants) {
	in := p.Input
	p.section = "added latency"
	switch in.Mode {
	case Async:
		p.AddedLatency = p.line("median", 0, "µs", "no round trip")
		return
	case Lease:
		p.line("for requests on hot keys", 0, "µs", "units are on the node")
	}
	p.AddedLatency = p.line("median in the region of the Redis shard", c.RoundTrip.Value, "µs", "one round trip")
	if in.Regions > 1 {
		far := 2 * float64(in.RegionDelay.Microseconds())
		p.line("median from another region", c.RoundTrip.Value+far, "µs",
			"%s + 2 × %v, for limits shared by regions", Number(c.RoundTrip.Value), in.RegionDelay)
	}
}
