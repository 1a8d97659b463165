package traffic

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/headgate/headgate/engine"
)

const (
	// ways is the number of clients of a bucket.
	ways = 4
	// deniedWeight is the weight of a denied request. It keeps denied clients in a table among many that are not.
	deniedWeight = 8
	// maxValues is the length up to which the values of a client are kept. Longer ones are cut and get a hash.
	maxValues = 72
)

// A bucket counts the clients whose hash selects it, in one cache line.
type bucket struct {
	fingerprints [ways]atomic.Uint32 // of the hashes of clients, 0 if the slot is free
	weights      [ways]atomic.Uint32 // missed + requests + (deniedWeight-1)·denied
	denied       [ways]atomic.Uint32
	missed       [ways]atomic.Uint32 // estimate of the weight before the client entered
}

// requests returns the number of requests of a client since it entered the bucket.
func (b *bucket) requests(i int) uint32 {
	denied, missed := b.denied[i].Load(), b.missed[i].Load() // the weight may be written later
	weight := b.weights[i].Load()
	return weight - min(weight, missed+(deniedWeight-1)*denied)
}

// missedRequests returns the estimated requests of a client before it entered, of which as many were denied as since.
func (b *bucket) missedRequests(i int) uint32 {
	missed := uint64(b.missed[i].Load())
	since := uint64(b.weights[i].Load()) - missed
	return uint32(missed * uint64(b.requests(i)) / max(since, 1))
}

// A slot is a client under a rule. The lock of its bucket guards it.
type slot struct {
	rule   *ruleStats
	shadow bool
	slotValues
}

// slotValues are the values of a client, in fixed memory.
type slotValues struct {
	size   uint8 // of values
	byIP   bool
	cut    bool // values are cut, and end with a hash
	values [maxValues]byte
}

// A table counts the requests of the heaviest clients in fixed memory. It is safe for concurrent use.
type table struct {
	seed    uint64 // odd
	mask    uint64
	buckets []bucket
	slots   []slot          // ways per bucket
	oneIn   atomic.Uint32   // one request in so many was counted at times; 0 if all were
	locks   []atomic.Uint32 // one per bucket
}

// slotBytes is the memory of a table for one client, rounded up.
const slotBytes = int(unsafe.Sizeof(slot{})) + (int(unsafe.Sizeof(bucket{}))+4+ways-1)/ways

// newTable returns a table for at least size clients; size is a multiple of ways.
func newTable(seed uint64, size int) *table {
	count := 1 << bits.Len(uint(size/ways-1))
	return &table{
		seed: seed | 1, mask: uint64(count - 1), buckets: make([]bucket, count), slots: make([]slot, count*ways),
		locks: make([]atomic.Uint32, count),
	}
}

// place returns the bucket of a client, and what distinguishes it there. The seed is different in each process, so that
// clients cannot choose to share a bucket.
func (t *table) place(key uint64) (at uint64, fingerprint uint32) {
	h := fold(key, t.seed)
	return h & t.mask, uint32(h>>32) | 1
}

// find returns the index of a client in its bucket, or ways if it is not there. It has no branches, which a processor
// would predict wrongly with many clients.
func (b *bucket) find(fingerprint uint32) int {
	return bits.TrailingZeros64(b.is(0, fingerprint) | b.is(1, fingerprint)<<1 | b.is(2, fingerprint)<<2 | b.is(3, fingerprint)<<3 | 1<<ways)
}

// is returns 1 if a client is the i-th of its bucket, else 0.
func (b *bucket) is(i int, fingerprint uint32) uint64 {
	return (uint64(b.fingerprints[i].Load()^fingerprint) - 1) >> 63
}

// least returns the weight of the lightest client.
func (b *bucket) least() uint32 {
	return min(b.weights[0].Load(), b.weights[1].Load(), b.weights[2].Load(), b.weights[3].Load())
}

// add counts a request of the client with a key, which stands for several requests. It returns the client's weight, 0 if
// it was not in the table.
func (t *table) add(key uint64, c *engine.ClientView, rule *ruleStats, requests uint32) (weight uint32) {
	at, fingerprint := t.place(key)
	b := &t.buckets[at]
	if i := b.find(fingerprint); i < ways {
		return b.count(i, requests, c.Denied)
	}
	added := uint64(requests * weightOf(c.Denied))
	if rand.Uint64()>>32*(uint64(b.least())+added) < added<<32 {
		t.enter(at, fingerprint, c, rule, requests)
	}
	return 0
}

func weightOf(denied bool) uint32 {
	if denied {
		return deniedWeight
	}
	return 1
}

// count counts requests of a client, and returns its weight.
func (b *bucket) count(i int, requests uint32, denied bool) uint32 {
	if denied {
		b.denied[i].Add(requests)
	}
	return b.weights[i].Add(requests * weightOf(denied))
}

// requests returns how often a client was counted, 0 if it is not in the table.
func (t *table) requests(key uint64) uint32 {
	at, fingerprint := t.place(key)
	b := &t.buckets[at]
	if i := b.find(fingerprint); i < ways {
		return b.requests(i)
	}
	return 0
}

// enter replaces the lightest client of a bucket. It is called for a request of weight w with the probability
// w/(least+w), so that the weight of the replaced client is the expected weight that the new client had before.
func (t *table) enter(at uint64, fingerprint uint32, c *engine.ClientView, rule *ruleStats, requests uint32) {
	if !t.locks[at].CompareAndSwap(0, 1) {
		return // another client enters the bucket
	}
	defer t.unlock(at)
	b := &t.buckets[at]
	if i := b.find(fingerprint); i < ways { // it has entered since
		b.count(i, requests, c.Denied)
		return
	}
	lightest, least := 0, ^uint32(0)
	for i := range ways {
		if w := b.weights[i].Load(); w < least {
			lightest, least = i, w
		}
	}
	b.weights[lightest].Store(least)
	b.missed[lightest].Store(least)
	b.denied[lightest].Store(0)
	b.count(lightest, requests, c.Denied)
	b.fingerprints[lightest].Store(fingerprint)
	s := &t.slots[at*ways+uint64(lightest)]
	s.rule, s.shadow = rule, c.Shadow
	s.set(c)
}

// lock waits for the lock of a bucket. It is held for nanoseconds.
func (t *table) lock(at uint64) {
	for !t.locks[at].CompareAndSwap(0, 1) {
		runtime.Gosched()
	}
}

func (t *table) unlock(at uint64) { t.locks[at].Store(0) }

// set copies the values of a client, because the verdict's buffer is reused.
func (v *slotValues) set(c *engine.ClientView) {
	values := c.Values
	v.byIP = c.Matched.ByIP()
	v.cut = len(values) > maxValues
	v.size = uint8(copy(v.values[:], values))
	if v.cut {
		sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(values), len(values)))
		hex.Encode(v.values[maxValues-2*cutHash:], sum[:cutHash])
	}
}

// cutHash is the number of bytes of the hash of values that are cut.
const cutHash = 8

// A counted is a client of a table.
type counted struct {
	rule                     *ruleStats
	values                   string
	byIP, shadow, cut        bool
	requests, denied, missed uint32
	oneIn                    uint32 // of the table
}

// errorFactor times the estimate of what was missed before a client entered a table bounds the true number with a
// probability of 99 %: each missed unit of weight entered with a probability of at least 1/(missed+1), so that the
// probability of more than 5·(missed+1) is below e⁻⁵.
const errorFactor = 4

// error returns the bound of the error of the requests, including those that were missed.
func (c *counted) error() (bound uint64) {
	if c.missed > 0 {
		bound = errorFactor * (uint64(c.missed) + 1)
	}
	if c.oneIn > 1 { // 2.6 standard deviations
		bound += uint64(math.Ceil(2.6 * math.Sqrt(float64(c.oneIn-1)*float64(c.requests+c.missed))))
	}
	return bound
}

// each calls f with each client of the table that has a rule, while its bucket is locked.
func (t *table) each(f func(b *bucket, i int, s *slot)) {
	for at := range t.buckets {
		t.lock(uint64(at))
		b := &t.buckets[at]
		for i := range ways {
			if s := &t.slots[at*ways+i]; s.rule != nil {
				f(b, i, s)
			}
		}
		t.unlock(uint64(at))
	}
}

// clients returns all clients of the table.
func (t *table) clients() []counted {
	var list []counted
	t.each(func(b *bucket, i int, s *slot) {
		c := s.counted(s.rule)
		c.shadow, c.requests, c.denied, c.missed = s.shadow, b.requests(i), b.denied[i].Load(), b.missedRequests(i)
		c.oneIn = t.oneIn.Load()
		list = append(list, c)
	})
	return list
}

// erase removes the clients that meet a condition.
func (t *table) erase(condition func(*counted) bool) {
	t.each(func(b *bucket, i int, s *slot) {
		if c := s.counted(s.rule); condition(&c) {
			b.clear(i)
			s.clear()
		}
	})
}

func (b *bucket) clear(i int) {
	b.fingerprints[i].Store(0)
	b.weights[i].Store(0)
	b.denied[i].Store(0)
	b.missed[i].Store(0)
}

func (s *slot) clear() { s.rule, s.size = nil, 0 }

// reset empties the table for another minute.
func (t *table) reset() {
	t.oneIn.Store(0)
	t.each(func(b *bucket, i int, s *slot) {
		b.clear(i)
		s.clear()
	})
}
