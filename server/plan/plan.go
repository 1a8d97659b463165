package plan

import (
	"fmt"
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
	// Nodes is the number of nodes of all regions. Default 0: as many as Peak needs.
	Nodes int `json:"nodes"`
}

// Validate returns an error for the first invalid field.
func (in Input) Validate() error {
	switch {
	case in.Clients < 1 || in.Clients > 1e12:
		return fmt.Errorf("%s clients: want 1 to 1T", Number(in.Clients))
	case in.Average <= 0 || in.Average > 1e12:
		return fmt.Errorf("%g requests per second: want more than 0, up to 1T", in.Average)
	case in.Peak < in.Average || in.Peak > 1e12:
		return fmt.Errorf("a peak of %s requests per second: want at least the average of %s, up to 1T",
			Number(in.Peak), Number(in.Average))
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
	case in.Nodes < 0 || in.Nodes > 1e6 || in.Nodes%max(in.Regions, 1) != 0:
		return fmt.Errorf("%d nodes: want a multiple of %d regions, up to 1M", in.Nodes, in.Regions)
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
	// NeededNodes is the number of nodes that the peak needs, without spare ones. It can be more than Nodes if those are
	// given.
	NeededNodes float64 `json:"needed_nodes"`
	// Shards is the number of Redis shards of all regions. GlobalShards is that of the global store, which regions share.
	Shards       float64 `json:"redis_shards"`
	GlobalShards float64 `json:"global_store_shards"`
	// Interrupted reports whether the measurement of the constants was interrupted, so that some are defaults.
	Interrupted bool `json:"interrupted,omitempty"`
	// OverAdmission is the largest number of units above its limit that a client can get.
	OverAdmission float64 `json:"over_admission_units"`
	// AddedLatency is the median time that a decision adds, in microseconds.
	AddedLatency float64 `json:"added_latency_us"`

	section string
	hotKeys float64 // only with Lease
}

// leaseTTL is the time for which nodes may use the units of a lease, in seconds.
const leaseTTL = 0.1

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
	if in.Mode == Async {
		p.sync(c)
	} else {
		p.store(c)
	}
	p.memory(c)
	p.overAdmission()
	p.latency(c)
	return p, nil
}

// rate returns the rate of the limit, in units per second.
func (p *Plan) rate() float64 { return float64(p.Input.Limit.Count) / p.Input.Limit.Period.Seconds() }

func (p *Plan) latency(c Constants) {
	in := p.Input
	p.section = "added latency"
	switch in.Mode {
	case Async:
		p.AddedLatency = p.line("median", 0, "µs", "no round trip")
	case Lease:
		p.line("for requests on hot keys", 0, "µs", "units are on the node")
		fallthrough
	default:
		p.AddedLatency = p.line("median", c.RoundTrip.Value, "µs", "one round trip to the Redis of the region")
	}
	if in.Mode == Async || in.Regions > 1 {
		delay := p.delay()
		p.line("second decision on a key that is new", min(c.RoundTrip.Value+2e6*delay, 250_000), "µs",
			"%s µs + 2 × %s s: it waits for a lookup, at most 250 ms", Number(c.RoundTrip.Value), Number(delay))
	}
}
