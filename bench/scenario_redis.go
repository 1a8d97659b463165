package main

import (
	"context"
	"fmt"
)

// runRedis compares limiters that count in Redis, on one server that all of them share, taking turns.
func runRedis(ctx context.Context, b *bench) error {
	_, stop, err := serveRedis()
	if err != nil {
		return err
	}
	defer stop()
	var workers []*worker
	defer func() { dismissAll(workers) }()
	for _, e := range redisEntries() {
		b.progress.at(0.05*float64(len(workers)), "redis, filling", e.name)
		w, err := hire(ctx, e, "steady", b.sizes.RedisKeys, b.sizes.RedisOps)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	title := fmt.Sprintf("Redis, %s keys, ", humanCount(b.sizes.RedisKeys))
	t := &turns{
		workers: workers, rounds: b.sizes.Rounds, ops: b.sizes.RedisOps,
		cases: []speedCase{
			{"redis-64", uniform, 64, title + "64 goroutines"},
			{"redis-256", uniform, 256, title + "256 goroutines"},
		},
		tell: func(part float64, stage, detail string) { b.progress.at(0.15+0.85*part, "redis, "+stage, detail) },
	}
	tables, err := t.take()
	if err != nil {
		return err
	}
	b.results.Speed = append(b.results.Speed, tables...)
	return nil
}
