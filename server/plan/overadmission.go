package plan

import (
	"github.com/headgate/headgate/server/fleet/async"
	"github.com/headgate/headgate/server/fleet/region"
)

// regionIntervals is the number of intervals within which the units of a node reach other regions.
const regionIntervals = 3

// overAdmission calculates the bounds of docs/fleet.md.
func (p *Plan) overAdmission() {
	in := p.Input
	p.section = "over-admission"
	burst := float64(in.Limit.Capacity())
	inside := 0.0
	switch in.Mode {
	case Exact:
		inside = p.line("per client in a region", 0, "units",
			"none while Redis keeps its data; a failover that loses it gives %s units once", Number(burst))
	case Lease:
		inside = p.line("per client in a region, within any interval", p.rate()*leaseTTL, "units",
			"%s/s × %s s of a lease; none in total", Number(p.rate()), Number(leaseTTL))
	}
	switch {
	case in.Mode == Async && in.Regions == 1:
		p.OverAdmission = p.bound("nodes", p.Nodes, async.DefaultInterval.Seconds(), 1)
	case in.Mode == Async:
		p.OverAdmission = p.bound("nodes", p.Nodes, region.DefaultInterval.Seconds(), regionIntervals)
	case in.Regions > 1:
		between := p.bound("regions", float64(in.Regions), region.DefaultInterval.Seconds(), regionIntervals)
		p.OverAdmission = p.line("per client of limits with scope: global", inside+between, "units", "%s + %s",
			Number(inside), Number(between))
	default:
		p.OverAdmission = inside
	}
}

// bound returns the over-admission of counters that exchange updates: min((N−1)(R+rS), (λ−r)S).
func (p *Plan) bound(counters string, n, interval, intervals float64) float64 {
	in := p.Input
	rate, burst, delay := p.rate(), float64(in.Limit.Capacity()), p.delay()
	age := p.line("greatest age of an update, S", intervals*interval+2*delay, "s", "%s × %s s + 2 × %s s",
		Number(intervals), Number(interval), Number(delay))
	byCount := p.line("by the number of "+counters, (n-1)*(burst+rate*age), "units", "(%s − 1) × (%s + %s/s × %s s)",
		Number(n), Number(burst), Number(rate), Number(age))
	byRate := p.line("by the offered rate", (in.Offered-1)*rate*age, "units", "(%s − 1) × %s/s × %s s",
		Number(in.Offered), Number(rate), Number(age))
	return p.line("per client between "+counters+", then repaid", min(byCount, byRate), "units", "the smaller one")
}

// nodeDelay is the delay between nodes of one region and their Redis, in seconds.
const nodeDelay = 0.001

// delay returns the time of a message to the Redis through which updates are exchanged, in seconds.
func (p *Plan) delay() float64 {
	if p.Input.Regions > 1 {
		return p.Input.RegionDelay.Seconds()
	}
	return nodeDelay
}
