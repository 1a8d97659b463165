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
		w.restart(w.slotsOf(f), 0, f.For)
	case scenario.NodeClock:
		w.restart(w.slotsOf(f), time.Duration(f.By), 0)
	case scenario.Join:
		for range f.Count {
			w.nodes = append(w.nodes, nil)
			w.fail(w.startNode(len(w.nodes)-1, 0))
		}
	case scenario.Partition:
		for _, slot := range f.Nodes {
			w.network.cut[slot]++
		}
		w.loop.After(f.For, func() {
			for _, slot := range f.Nodes {
				w.network.cut[slot]--
			}
		})
	case scenario.Slow, scenario.Lossy:
		w.network.faults = append(w.network.faults, f)
		w.network.update(w.scenario)
		w.loop.After(f.For, func() {
			w.network.faults = slices.DeleteFunc(w.network.faults, func(o *scenario.Fault) bool { return o == f })
			w.network.update(w.scenario)
		})
	default:
		for i, s := range w.redis {
			if f.Shard == nil || *f.Shard == s.number {
				w.beginRedis(f, i, s)
			}
		}
	}
}

// beginRedis begins a fault of a Redis server.
func (w *world) beginRedis(f *scenario.Fault, i int, s *redisServer) {
	switch f.Kind {
	case scenario.RedisDown:
		s.down++
		w.loop.After(f.For, func() { s.down-- })
	case scenario.Failover:
		s.down++
		w.loop.After(f.For, func() {
			s.down--
			if !f.Keep {
				s.wipe(w)
				w.board.wipe(i, len(w.redis))
			}
		})
	case scenario.RedisClock:
		s.ahead += time.Duration(f.By)
		w.loop.After(f.For, func() { s.ahead -= time.Duration(f.By) })
	}
}

// slotsOf returns the slots of the nodes that a fault happens to.
func (w *world) slotsOf(f *scenario.Fault) []int {
	if len(f.Nodes) > 0 {
		return f.Nodes
	}
	slots := make([]int, len(w.nodes))
	for i := range slots {
		slots[i] = i
	}
	return slots
}

// restart stops nodes, and starts them without memory after a time.
func (w *world) restart(slots []int, ahead, after time.Duration) {
	for _, slot := range slots {
		if w.nodes[slot] == nil {
			continue
		}
		w.fail(w.stopNode(slot))
		w.loop.After(after, func() {
			if w.nodes[slot] == nil {
				w.fail(w.startNode(slot, ahead))
			}
		})
	}
}
