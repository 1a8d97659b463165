package sim

import (
	"slices"
	"time"

	"github.com/headgate/headgate/server/sim/scenario"
)

// startFaults schedules the faults of the scenario.
func (w *world) startFaults() {
	for i := range w.scenario.Faults {
		f := &w.scenario.Faults[i]
		w.loop.After(f.At, func() {
			w.result.mark(w.loop.Now(), string(f.Kind))
			w.begin(f)
		})
	}
}

// begin begins a fault, and schedules its end.
func (w *world) begin(f *scenario.Fault) {
	switch f.Kind {
	case scenario.Crash:
		w.restart(w.slotsOf(f), f.For)
	case scenario.NodeClock:
		for _, slot := range w.slotsOf(f) {
			w.clocks[slot] += time.Duration(f.By)
		}
		w.restart(w.slotsOf(f), 0)
	case scenario.Join:
		for _, region := range w.regionsOf(f, 1) {
			for range f.Count {
				w.fail(w.startNode(w.addSlot(region)))
			}
		}
	case scenario.Partition:
		heal := w.network.cutOff(f.Nodes)
		w.loop.After(f.For, func() {
			heal()
			w.introduceAll()
		})
	case scenario.RegionPartition:
		w.loop.After(f.For, w.between.cutOff(f.Regions))
	case scenario.Slow, scenario.Lossy:
		network := w.network
		if f.Between {
			network = w.between
		}
		network.faults = append(network.faults, f)
		network.update()
		w.loop.After(f.For, func() {
			network.faults = slices.DeleteFunc(network.faults, func(o *scenario.Fault) bool { return o == f })
			network.update()
		})
	default:
		w.beginRedis(f)
	}
}

// beginRedis begins a fault of Redis servers.
func (w *world) beginRedis(f *scenario.Fault) {
	groups := [][]*redisServer{w.exchangeServers()}
	if !f.Global {
		groups = nil
		for _, region := range w.regionsOf(f, w.scenario.CountRegions()) {
			groups = append(groups, w.serversOf(region))
		}
	}
	for _, servers := range groups {
		for _, s := range servers {
			if f.Shard == nil || *f.Shard == s.number {
				w.beginServer(f, s)
			}
		}
	}
}

// beginServer begins a fault of a Redis server.
func (w *world) beginServer(f *scenario.Fault, s *redisServer) {
	switch f.Kind {
	case scenario.RedisDown:
		s.down++
		w.loop.After(f.For, func() { s.down-- })
	case scenario.Failover:
		s.down++
		w.loop.After(f.For, func() {
			s.down--
			s.replace(w, f.Keep)
		})
	case scenario.RedisClock:
		s.ahead += time.Duration(f.By)
		w.loop.After(f.For, func() { s.ahead -= time.Duration(f.By) })
	}
}

// slotsOf returns the slots of the nodes that a fault affects.
func (w *world) slotsOf(f *scenario.Fault) []int {
	if len(f.Nodes) > 0 {
		return f.Nodes
	}
	var slots []int
	for _, region := range w.regionsOf(f, w.scenario.CountRegions()) {
		slots = append(slots, w.regions[region].slots...)
	}
	return slots
}

// restart stops nodes, and starts them again after the given time, without their memory. A node with several such faults
// starts after all of them. Requests in flight are not decided.
func (w *world) restart(slots []int, after time.Duration) {
	for _, slot := range slots {
		if w.nodes[slot] != nil {
			w.result.Unserved += w.nodes[slot].inFlight
			w.fail(w.stopNode(slot))
		}
		w.crashes[slot]++
		w.loop.After(after, func() {
			if w.crashes[slot]--; w.crashes[slot] == 0 {
				w.fail(w.startNode(slot))
			}
		})
	}
}
