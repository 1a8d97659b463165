package limiters

import (
	"sync"

	"github.com/headgate/headgate/bench/harness"
	"github.com/juju/ratelimit"
)

// github.com/juju/ratelimit is a single bucket, so its users need a map of buckets.
func jujuEntries() []Entry {
	const module = "github.com/juju/ratelimit"
	return []Entry{
		{
			Name: "juju-syncmap", Title: "juju/ratelimit, sync.Map", Module: module, Role: harness.Peer, KeepsKeys: true,
			Make: newJujuSyncMap,
		},
		{
			Name: "juju-single", Title: "juju/ratelimit, one counter", Module: module, Role: harness.Peer, Single: true,
			Make: newJujuSingle,
		},
	}
}

func newBucket(q Quota) *ratelimit.Bucket { return ratelimit.NewBucket(q.Interval(), int64(q.Count)) }

type jujuSingle struct{ bucket *ratelimit.Bucket }

func newJujuSingle(q Quota, _ int) (Limiter, error) { return jujuSingle{newBucket(q)}, nil }

func (j jujuSingle) Allow(string) bool { return j.bucket.TakeAvailable(1) == 1 }

type jujuSyncMap struct {
	quota   Quota
	buckets sync.Map
}

func newJujuSyncMap(q Quota, _ int) (Limiter, error) { return &jujuSyncMap{quota: q}, nil }

func (j *jujuSyncMap) Allow(key string) bool {
	b, ok := j.buckets.Load(key)
	if !ok {
		b, _ = j.buckets.LoadOrStore(key, newBucket(j.quota))
	}
	return b.(*ratelimit.Bucket).TakeAvailable(1) == 1
}
