package scenario

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/rules"
)

// MaxRegions is the maximum number of regions of a scenario.
const MaxRegions = 100

const (
	defaultRegionDelay    = 40 * time.Millisecond
	defaultRegionInterval = time.Second
)

// CountRegions returns the number of regions. It returns 1 if Regions is not set.
func (s *Scenario) CountRegions() int {
	if s.Regions == nil {
		return 1
	}
	return s.Regions.Count
}

// AllNodes returns the number of nodes of all regions at the start.
func (s *Scenario) AllNodes() int { return s.Nodes * s.CountRegions() }

func (r *Regions) setDefaults() {
	if r == nil {
		return
	}
	r.Distribution = cmp.Or(r.Distribution, Exponential)
	r.SyncInterval = cmp.Or(r.SyncInterval, defaultRegionInterval)
	if r.Delay == nil {
		delay := defaultRegionDelay
		r.Delay = &delay
	}
}

// validateRegions checks the regions. It also checks that regions can share the limits in every mode.
func (s *Scenario) validateRegions(p *problems) {
	r := s.Regions
	if r == nil {
		return
	}
	p.add(r.Count >= 2 && r.Count <= MaxRegions, "regions.count", strconv.Itoa(r.Count), fmt.Sprint("2 to ", MaxRegions))
	p.add(s.AllNodes() <= MaxNodes, "nodes", fmt.Sprintf("%d in each of %d regions", s.Nodes, r.Count),
		fmt.Sprint("at most ", MaxNodes, " in all"))
	p.add(r.Loss < 100, "regions.loss", fmt.Sprint(r.Loss), "less than 100 percent")
	p.add(r.SyncInterval >= 10*time.Millisecond && r.SyncInterval <= 20*time.Second, "regions.sync_interval",
		r.SyncInterval.String(), "10ms to 20s")
	for i, mode := range s.Modes {
		p.add(mode != rules.Local && mode != rules.Gossip, fmt.Sprintf("modes[%d]", i), mode.String(),
			"exact, lease or async: regions share limits of these modes")
	}
	for _, l := range s.Limits {
		ok, _ := rules.Compatible(rules.Async, l.Algorithm)
		p.add(ok, "limits", l.String(), "an algorithm that regions can share: token-bucket, gcra, fixed-window or sliding-window")
	}
	for i, a := range s.Algorithms {
		ok, _ := rules.Compatible(rules.Async, a)
		p.add(ok, fmt.Sprintf("algorithms[%d]", i), a.String(), "token-bucket, gcra, fixed-window or sliding-window")
	}
}

// validateRegion checks the number of a region.
func (s *Scenario) validateRegion(p *problems, number int, path string) {
	p.add(s.Regions != nil, path, "a region", "regions, as in { count: 3 }")
	if s.Regions != nil {
		p.add(number >= 0 && number < s.Regions.Count, path, strconv.Itoa(number), fmt.Sprint("0 to ", s.Regions.Count-1))
	}
}

// validateFaultRegions checks the regions and the network that a fault affects.
func (s *Scenario) validateFaultRegions(p *problems, f *Fault, path string) {
	for i, r := range f.Regions {
		s.validateRegion(p, r, fmt.Sprintf("%s.regions[%d]", path, i))
	}
	needs := func(set bool, field string) {
		p.add(!set || s.Regions != nil, path+"."+field, "a fault of regions", "regions, as in { count: 3 }")
	}
	needs(f.Global, "global")
	needs(f.Between, "between_regions")
	p.add(!f.Global || len(f.Regions) == 0, path+".global", "global beside regions", "one of them")
	p.add(len(f.Nodes) == 0 || len(f.Regions) == 0, path+".nodes", "nodes beside regions", "one of them")
	if f.Kind == RegionPartition {
		needs(true, "kind")
		p.add(len(f.Regions) > 0, path+".regions", "no regions", "the regions that are cut off")
	}
}
