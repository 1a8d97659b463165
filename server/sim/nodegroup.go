package sim

import (
	"slices"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

// A nodeGroup is the nodes of a region, or of all regions.
type nodeGroup struct {
	slots []int
	live  int
	last  int // index in slots of the node that the load balancer picked last
}

// addSlot adds a place for a node of a region.
func (w *world) addSlot(region int) int {
	slot := len(w.nodes)
	w.nodes, w.crashes = append(w.nodes, nil), append(w.crashes, 0)
	var ahead time.Duration
	if most := int64(w.scenario.ClockSkew); most > 0 {
		ahead = time.Duration(w.skew.Int64N(2*most+1) - most)
	}
	w.clocks = append(w.clocks, ahead)
	w.all.slots = append(w.all.slots, slot)
	w.regions[region].slots = append(w.regions[region].slots, slot)
	return slot
}

// regionOf returns the region of a slot.
func (w *world) regionOf(slot int) int {
	return slices.IndexFunc(w.regions, func(g nodeGroup) bool { return slices.Contains(g.slots, slot) })
}

// addLive adds delta, which may be negative, to the number of live nodes in a region.
func (w *world) addLive(region, delta int) {
	w.all.live += delta
	w.regions[region].live += delta
}

// pick returns the node for a request, or nil if there is none.
func (w *world) pick(r *request) *node {
	g := &w.all
	if region := r.source.spec.Region; region != nil {
		g = &w.regions[*region]
	}
	if g.live == 0 {
		return nil
	}
	switch w.scenario.Balance {
	case scenario.Random:
		g.last = w.balancer.IntN(len(g.slots))
	case scenario.ByClient:
		g.last = int(mix(r.client) % uint64(len(g.slots)))
	default:
		g.last = (g.last + 1) % len(g.slots)
	}
	for w.nodes[g.slots[g.last]] == nil {
		g.last = (g.last + 1) % len(g.slots)
	}
	return w.nodes[g.slots[g.last]]
}
