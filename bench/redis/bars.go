package redis

import (
	"github.com/headgate/headgate/bench/harness"
)

// redisBars compares the results in Redis with their bars.
func redisBars(r *harness.Results) []harness.Bar {
	return []harness.Bar{
		harness.FasterThanPeers(r.SpeedNamed("redis-64"), "64 goroutines", 1.6),
		harness.FasterThanPeers(r.SpeedNamed("redis-256"), "256 goroutines", 1.6),
		harness.NearFloor(r.SpeedNamed("redis-64"), "64 goroutines", 1/0.85),
		harness.NearFloor(r.SpeedNamed("redis-256"), "256 goroutines", 1/0.85),
		halfLoadBar(r),
	}
}
