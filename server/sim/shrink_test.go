package sim

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/server/sim/scenario"
)

// shrink returns a smaller scenario that violates an invariant, too: with fewer faults, nodes, clients or requests.
func shrink(t *testing.T, s *scenario.Scenario, planted bugs) *scenario.Scenario {
	t.Helper()
	for smaller := true; smaller; {
		smaller = false
		for _, candidate := range candidates(s) {
			if len(candidate.Validate()) == 0 && violationOf(t, candidate, planted) != "" {
				s, smaller = candidate, true
				break
			}
		}
	}
	return s
}

// candidates returns scenarios that are one step smaller, those that save most first.
func candidates(s *scenario.Scenario) []*scenario.Scenario {
	var list []*scenario.Scenario
	change := func(apply func(*scenario.Scenario)) {
		c := *s
		c.Faults, c.Traffic = slices.Clone(s.Faults), slices.Clone(s.Traffic)
		apply(&c)
		list = append(list, &c)
	}
	for i := range s.Faults {
		change(func(c *scenario.Scenario) { c.Faults = slices.Delete(c.Faults, i, i+1) })
	}
	if s.Traffic[0].Clients > 1 {
		change(func(c *scenario.Scenario) {
			c.Traffic[0].Rate /= scenario.Number(c.Traffic[0].Clients)
			c.Traffic[0].Clients = 1
		})
	}
	if s.Nodes > 1 {
		change(func(c *scenario.Scenario) { c.Nodes-- })
	}
	if s.Redis.Shards > 1 {
		change(func(c *scenario.Scenario) { c.Redis.Shards = 1 })
	}
	if s.Traffic[0].Retry != nil {
		change(func(c *scenario.Scenario) { c.Traffic[0].Retry = nil })
	}
	if s.Traffic[0].On > 0 {
		change(func(c *scenario.Scenario) { c.Traffic[0].On, c.Traffic[0].Off = 0, 0 })
	}
	if s.Traffic[0].Cost > 1 {
		change(func(c *scenario.Scenario) { c.Traffic[0].Cost = 1 })
	}
	if s.ClockSkew > 0 {
		change(func(c *scenario.Scenario) { c.ClockSkew = 0 })
	}
	if len(s.Limits) > 1 {
		change(func(c *scenario.Scenario) { c.Limits = c.Limits[:1] })
	}
	if s.Traffic[0].Rate > 2 {
		change(func(c *scenario.Scenario) { c.Traffic[0].Rate /= 2 })
	}
	return list
}
