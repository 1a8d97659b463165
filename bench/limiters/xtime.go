package limiters

import (
	"hash/maphash"
	"sync"

	"github.com/headgate/headgate/bench/harness"
	"golang.org/x/time/rate"
)

// golang.org/x/time/rate is a single counter, so its users need a map of counters. These are the two usual kinds of
// map.
func xtimeEntries() []Entry {
	const module = "golang.org/x/time"
	return []Entry{
		{
			Name: "xtime-shards", Title: "x/time/rate, sharded map", Module: module, Role: harness.Peer, KeepsKeys: true,
			Make: newXtimeShards,
		},
		{
			Name: "xtime-syncmap", Title: "x/time/rate, sync.Map", Module: module, Role: harness.Peer, KeepsKeys: true,
			Make: newXtimeSyncMap,
		},
		{
			Name: "xtime-single", Title: "x/time/rate, one counter", Module: module, Role: harness.Peer, Single: true,
			Make: newXtimeSingle,
		},
	}
}

func newRateLimiter(q Quota) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(q.perSecond()), q.Count)
}

type xtimeSingle struct{ *rate.Limiter }

func newXtimeSingle(q Quota, _ int) (Limiter, error) { return xtimeSingle{newRateLimiter(q)}, nil }

func (x xtimeSingle) Allow(string) bool { return x.Limiter.Allow() }

type xtimeSyncMap struct {
	quota    Quota
	limiters sync.Map
}

func newXtimeSyncMap(q Quota, _ int) (Limiter, error) { return &xtimeSyncMap{quota: q}, nil }

func (x *xtimeSyncMap) Allow(key string) bool {
	l, ok := x.limiters.Load(key)
	if !ok {
		l, _ = x.limiters.LoadOrStore(key, newRateLimiter(x.quota))
	}
	return l.(*rate.Limiter).Allow()
}

const xtimeShardCount = 256

type xtimeShards struct {
	quota  Quota
	seed   maphash.Seed
	shards [xtimeShardCount]xtimeShard
}

type xtimeShard struct {
	mu       sync.RWMutex
	limiters map[string]*rate.Limiter
	_        [32]byte // to a cache line
}

func newXtimeShards(q Quota, _ int) (Limiter, error) {
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

func (s *xtimeShard) add(key string, q Quota) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limiters[key]
	if l == nil {
		l = newRateLimiter(q)
		s.limiters[key] = l
	}
	return l
}
