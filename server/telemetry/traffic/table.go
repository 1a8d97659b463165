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

// A head says which clients a bucket has. The heads of a table stay in the processor's cache, so that a client that is
// not in the table, as most are if there are many, costs no access to memory.
type head struct {
	tags  atomic.Uint64 // of the clients, 16 bits of each fingerprint, 0 if the slot is free
	least atomic.Uint32 // at most the weight of the lightest client
	lock  atomic.Uint32 // 1 while a client enters the bucket or is erased
}

// lanes has a 1 in each of the 16-bit lanes of tags.
const lanes = 0x0001_0001_0001_0001

// set sets the tag of a slot. The bucket is locked.
func (h *head) set(i int, fingerprint uint32) {
	shift := 16 * i
	h.tags.Store(h.tags.Load()&^(0xffff<<shift) | uint64(fingerprint&0xffff)<<shift)
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
	heads   []head
	buckets []bucket
	slots   []slot        // ways per bucket
	oneIn   atomic.Uint32 // one request in so many was counted at times; 0 if all were
}

// slotBytes is the memory of a table for one client, rounded up.
const slotBytes = int(unsafe.Sizeof(slot{})) + int(unsafe.Sizeof(bucket{})+unsafe.Sizeof(head{}))/ways

// newTable returns a table for at least size clients; size is a multiple of ways.
func newTable(seed uint64, size int) *table {
	count := 1 << bits.Len(uint(size/ways-1))
	return &table{
		seed: seed | 1, mask: uint64(count - 1),
		heads: make([]head, count), buckets: make([]bucket, count), slots: make([]slot, count*ways),
	}
}

// place returns the bucket of a client, and what distinguishes it there. The seed is different in each process, so that
// clients cannot choose to share a bucket.
func (t *table) place(key uint64) (at uint64, fingerprint uint32) {
	h := fold(key, t.seed)
	return h & t.mask, uint32(h>>32) | 1
}

// find returns the index of a client in its bucket, or ways if it is not there.
func (t *table) find(at uint64, fingerprint uint32) int {
	x := t.heads[at].tags.Load() ^ uint64(fingerprint&0xffff)*lanes
	// Each lane of x that is 0 has its highest bit set, and perhaps lanes above it.
	for equal := (x - lanes) & ^x & (lanes << 15); equal != 0; equal &= equal - 1 {
		if i := bits.TrailingZeros64(equal) / 16; t.buckets[at].fingerprints[i].Load() == fingerprint {
			return i
		}
	}
	return ways
}

// add counts a request of the client with a key, which stands for several requests. It returns the client's weight, 0 if
// it was not in the table.
func (t *table) add(key uint64, c *engine.ClientView, rule *ruleStats, requests uint32) (weight uint32) {
	at, fingerprint := t.place(key)
	if i := t.find(at, fingerprint); i < ways {
		return t.buckets[at].count(i, requests, c.Denied)
	}
	if chance(requests*weightOf(c.Denied), t.heads[at].least.Load()) {
		t.enter(at, fingerprint, c, rule, requests)
	}
	return 0
}

// chance returns true with the probability w/(weight+w).
func chance(w, weight uint32) bool {
	return rand.Uint64()>>32*(uint64(weight)+uint64(w)) < uint64(w)<<32
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
	if i := t.find(at, fingerprint); i < ways {
		return t.buckets[at].requests(i)
	}
	return 0
}

// enter lets a client replace the lightest of its bucket. It does so for a request of weight w with the probability
// w/(weight+w), so that the weight of the replaced client is the expected weight that the new client had before. It is
// called with the probability w/(least+w).
func (t *table) enter(at uint64, fingerprint uint32, c *engine.ClientView, rule *ruleStats, requests uint32) {
	b, h := &t.buckets[at], &t.heads[at]
	if !h.lock.CompareAndSwap(0, 1) {
		return // another client enters the bucket
	}
	defer t.unlock(at)
	if i := t.find(at, fingerprint); i < ways { // it has entered since
		b.count(i, requests, c.Denied)
		return
	}
	lightest, weight := 0, ^uint32(0)
	for i := range ways {
		if w := b.weights[i].Load(); w < weight {
			lightest, weight = i, w
		}
	}
	w, least := requests*weightOf(c.Denied), h.least.Swap(weight)
	if weight > least && !chance(least+w, weight-least) {
		return // its chance was w/(least+w) so far
	}
	b.weights[lightest].Store(weight)
	b.missed[lightest].Store(weight)
	b.denied[lightest].Store(0)
	b.count(lightest, requests, c.Denied)
	b.fingerprints[lightest].Store(fingerprint)
	h.set(lightest, fingerprint)
	s := &t.slots[at*ways+uint64(lightest)]
	s.rule, s.shadow = rule, c.Shadow
	s.set(c)
}

// lock waits for the lock of a bucket. It is held for nanoseconds.
func (t *table) lock(at uint64) {
	for !t.heads[at].lock.CompareAndSwap(0, 1) {
		runtime.Gosched()
	}
}

func (t *table) unlock(at uint64) { t.heads[at].lock.Store(0) }

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
func (t *table) each(f func(at, i int, s *slot)) {
	for at := range t.buckets {
		t.lock(uint64(at))
		for i := range ways {
			if s := &t.slots[at*ways+i]; s.rule != nil {
				f(at, i, s)
			}
		}
		t.unlock(uint64(at))
	}
}

// clients returns all clients of the table.
func (t *table) clients() []counted {
	var list []counted
	t.each(func(at, i int, s *slot) {
		c, b := s.counted(s.rule), &t.buckets[at]
		c.shadow, c.requests, c.denied, c.missed = s.shadow, b.requests(i), b.denied[i].Load(), b.missedRequests(i)
		c.oneIn = t.oneIn.Load()
		list = append(list, c)
	})
	return list
}

// erase removes the clients that meet a condition.
func (t *table) erase(condition func(*counted) bool) {
	t.each(func(at, i int, s *slot) {
		if c := s.counted(s.rule); condition(&c) {
			t.clear(at, i, s)
		}
	})
}

func (t *table) clear(at, i int, s *slot) {
	b, h := &t.buckets[at], &t.heads[at]
	h.set(i, 0)
	h.least.Store(0)
	b.fingerprints[i].Store(0)
	b.weights[i].Store(0)
	b.denied[i].Store(0)
	b.missed[i].Store(0)
	s.rule, s.size = nil, 0
}

// reset empties the table for another minute.
func (t *table) reset() {
	t.oneIn.Store(0)
	t.each(t.clear)
}
