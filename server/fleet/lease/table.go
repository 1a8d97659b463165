package lease

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

const (
	maxShards    = 64 // a power of two
	firstBuckets = 16 // a power of two
	evictTries   = 8
)

// A table is a hash table of holdings by key and limit. Lookups take no lock. While a shard grows, a lookup may miss an
// entry, so add repeats it with the lock.
type table struct {
	seed        maphash.Seed
	shards      []shard
	maxPerShard int // maximum number of holdings in a shard
}

type shard struct {
	buckets atomic.Pointer[[]atomic.Pointer[holding]]
	mu      sync.Mutex
	keys    int // number of holdings
	cursor  int // the bucket at which evict continues
	_       [24]byte
}

func (t *table) init(maxKeys int) {
	n := maxShards
	for n > 1 && maxKeys < 16*n {
		n /= 2
	}
	t.seed = maphash.MakeSeed()
	t.shards = make([]shard, n)
	t.maxPerShard = (maxKeys + n - 1) / n
	for i := range t.shards {
		buckets := make([]atomic.Pointer[holding], firstBuckets)
		t.shards[i].buckets.Store(&buckets)
	}
}

func (t *table) hash(key string) uint64 { return maphash.String(t.seed, key) }

func (t *table) shard(hash uint64) *shard {
	return &t.shards[hash>>32&uint64(len(t.shards)-1)]
}

func bucketOf(buckets []atomic.Pointer[holding], hash uint64) *atomic.Pointer[holding] {
	return &buckets[hash&uint64(len(buckets)-1)]
}

// find returns a holding, or nil.
func (t *table) find(hash uint64, key string, limit *headgate.Limit) *holding {
	h := bucketOf(*t.shard(hash).buckets.Load(), hash).Load()
	for h != nil && (h.hash != hash || h.key != key || h.limit != *limit) {
		h = h.next.Load()
	}
	return h
}

// add adds a holding and returns it. If there is already a holding for the key and limit, it returns that one. If there
// is no room, it returns nil. The shard is locked.
func (t *table) add(s *shard, created *holding) *holding {
	if h := t.find(created.hash, created.key, &created.limit); h != nil {
		return h
	}
	if s.keys >= t.maxPerShard && !s.evict() {
		return nil
	}
	if buckets := *s.buckets.Load(); s.keys >= 2*len(buckets) {
		s.grow(buckets)
	}
	bucket := bucketOf(*s.buckets.Load(), created.hash)
	created.next.Store(bucket.Load())
	bucket.Store(created)
	s.keys++
	return created
}

func (s *shard) grow(old []atomic.Pointer[holding]) {
	buckets := make([]atomic.Pointer[holding], 4*len(old))
	for i := range old {
		for h := old[i].Load(); h != nil; {
			next := h.next.Load()
			bucket := bucketOf(buckets, h.hash)
			h.next.Store(bucket.Load())
			bucket.Store(h)
			h = next
		}
	}
	s.buckets.Store(&buckets)
}

// evict removes a holding without units and waiters, and reports whether it has found one. The shard is locked.
func (s *shard) evict() bool {
	buckets := *s.buckets.Load()
	for range min(len(buckets), evictTries*firstBuckets) {
		s.cursor = (s.cursor + 1) % len(buckets)
		for h := buckets[s.cursor].Load(); h != nil; h = h.next.Load() {
			if h.mu.TryLock() {
				idle := h.idle()
				h.removed = h.removed || idle
				h.mu.Unlock()
				if idle {
					s.unlink(h)
					return true
				}
			}
		}
	}
	return false
}

// remove removes a holding from the table.
func (t *table) remove(h *holding) {
	s := t.shard(h.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlink(h)
}

func (s *shard) unlink(h *holding) {
	link := bucketOf(*s.buckets.Load(), h.hash)
	for other := link.Load(); other != nil; other = link.Load() {
		if other == h {
			link.Store(h.next.Load())
			s.keys--
			return
		}
		link = &other.next
	}
}

// each calls do for all holdings of a key, under any limit.
func (t *table) each(key string, do func(*holding)) {
	hash := t.hash(key)
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := bucketOf(*s.buckets.Load(), hash).Load(); h != nil; h = h.next.Load() {
		if h.hash == hash && h.key == key {
			do(h)
		}
	}
}

// drain empties the table, and calls do for all holdings.
func (t *table) drain(do func(*holding)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		buckets := *s.buckets.Load()
		for j := range buckets {
			for h := buckets[j].Swap(nil); h != nil; h = h.next.Load() {
				do(h)
			}
		}
		s.keys = 0
		s.mu.Unlock()
	}
}

// count returns the number of holdings.
func (t *table) count() int64 {
	var n int64
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += int64(s.keys)
		s.mu.Unlock()
	}
	return n
}
