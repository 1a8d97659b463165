package main

import (
	"hash/maphash"
	"sync"

	"golang.org/x/time/rate"
)

// golang.org/x/time/rate is one counter; its users keep a map of them. The two maps here are the usual ones.
func xtimeEntries() []entry {
	const module = "golang.org/x/time"
	return []entry{
		{name: "xtime-shards", title: "x/time/rate, sharded map", module: module, role: peer, keepsKeys: true, make: newXtimeShards},
		{name: "xtime-syncmap", title: "x/time/rate, sync.Map", module: module, role: peer, keepsKeys: true, make: newXtimeSyncMap},
		{name: "xtime-single", title: "x/time/rate, one counter", module: module, role: peer, single: true, make: newXtimeSingle},
	}
}

func newRateLimiter(q quota) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(q.perSecond()), q.count)
}

type xtimeSingle struct{ *rate.Limiter }

func newXtimeSingle(q quota, _ int) (contender, error) { return xtimeSingle{newRateLimiter(q)}, nil }

func (x xtimeSingle) Allow(string) bool { return x.Limiter.Allow() }

type xtimeSyncMap struct {
	quota    quota
	limiters sync.Map
}

func newXtimeSyncMap(q quota, _ int) (contender, error) { return &xtimeSyncMap{quota: q}, nil }

func (x *xtimeSyncMap) Allow(key string) bool {
	l, ok := x.limiters.Load(key)
	if !ok {
		l, _ = x.limiters.LoadOrStore(key, newRateLimiter(x.quota))
	}
	return l.(*rate.Limiter).Allow()
}

const xtimeShardCount = 256

type xtimeShards struct {
	quota  quota
	seed   maphash.Seed
	shards [xtimeShardCount]xtimeShard
}

type xtimeShard struct {
	mu       sync.RWMutex
	limiters map[string]*rate.Limiter
	_        [32]byte // to a cache line
}

func newXtimeShards(q quota, _ int) (contender, error) {
	x := &xtimeShards{quota: q, seed: maphash.MakeSeed()}
	for i := range x.shards {
		x.shards[i].limiters = map[string]*rate.Limiter{}
	}
	return x, nil
}

func (x *xtimeShards) Allow(key string) bool {
	s := &x.shards[maphash.String(x.seed, key)%xtimeShardCount]
	s.mu.RLock()
	l := s.limiters[key]
	s.mu.RUnlock()
	if l == nil {
		l = s.add(key, x.quota)
	}
	return l.Allow()
}

func (s *xtimeShard) add(key string, q quota) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limiters[key]
	if l == nil {
		l = newRateLimiter(q)
		s.limiters[key] = l
	}
	return l
}
