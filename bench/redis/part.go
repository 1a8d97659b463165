package redis

import (
	"github.com/headgate/headgate/bench/harness"
	"github.com/headgate/headgate/bench/limiters"
)

// Part returns the part that measures limiters in Redis.
func Part() harness.Part {
	scenarios := []harness.Scenario{
		{Name: "redis", Seconds: 60, Run: runRedis},
		{Name: "redis-half", Seconds: 45, Run: runRedisHalf},
	}
	return harness.Part{
		Name: "redis", Title: "In Redis", Scenarios: scenarios, Versions: limiters.Linked(Entries()),
		Method: redisMethod, Report: reportHalf, Bars: redisBars,
	}
}
