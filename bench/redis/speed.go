package redis

import (
	"context"
	"fmt"

	"github.com/headgate/headgate/bench/core"
	"github.com/headgate/headgate/bench/harness"
)

// runRedis compares limiters that count in Redis. They share one server and take turns.
func runRedis(ctx context.Context, b *harness.Bench) error {
	_, stop, err := serveRedis()
	if err != nil {
		return err
	}
	defer stop()
	var workers []*core.Worker
	defer func() { core.StopAll(workers) }()
	for _, e := range Entries() {
		b.Progress.At(0.05*float64(len(workers)), "redis, filling", e.Name)
		w, err := core.StartWorker(ctx, e, "steady", b.Sizes.RedisKeys, b.Sizes.RedisOps)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	title := fmt.Sprintf("Redis, %s keys, ", harness.HumanCount(b.Sizes.RedisKeys))
	t := &core.Turns{
		Workers: workers, Rounds: b.Sizes.Rounds, Ops: b.Sizes.RedisOps,
		Cases: []core.SpeedCase{
			{Id: "redis-64", Order: harness.Uniform, Goroutines: 64, Title: title + "64 goroutines"},
			{Id: "redis-256", Order: harness.Uniform, Goroutines: 256, Title: title + "256 goroutines"},
		},
		Tell: func(part float64, stage, detail string) { b.Progress.At(0.15+0.85*part, "redis, "+stage, detail) },
	}
	tables, err := t.Take()
	if err != nil {
		return err
	}
	b.Results.Speed = append(b.Results.Speed, tables...)
	return nil
}
