package main

import (
	"sync"

	"github.com/juju/ratelimit"
)

// github.com/juju/ratelimit is one bucket; its users keep a map of them.
func jujuEntries() []entry {
	const module = "github.com/juju/ratelimit"
	return []entry{
		{name: "juju-syncmap", title: "juju/ratelimit, sync.Map", module: module, role: peer, keepsKeys: true, make: newJujuSyncMap},
		{name: "juju-single", title: "juju/ratelimit, one counter", module: module, role: peer, single: true, make: newJujuSingle},
	}
}

func newBucket(q quota) *ratelimit.Bucket { return ratelimit.NewBucket(q.interval(), int64(q.count)) }

type jujuSingle struct{ bucket *ratelimit.Bucket }

func newJujuSingle(q quota, _ int) (contender, error) { return jujuSingle{newBucket(q)}, nil }

func (j jujuSingle) Allow(string) bool { return j.bucket.TakeAvailable(1) == 1 }

type jujuSyncMap struct {
	quota   quota
	buckets sync.Map
}

func newJujuSyncMap(q quota, _ int) (contender, error) { return &jujuSyncMap{quota: q}, nil }

func (j *jujuSyncMap) Allow(key string) bool {
	b, ok := j.buckets.Load(key)
	if !ok {
		b, _ = j.buckets.LoadOrStore(key, newBucket(j.quota))
	}
	return b.(*ratelimit.Bucket).TakeAvailable(1) == 1
}
