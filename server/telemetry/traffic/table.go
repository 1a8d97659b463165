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
	"github.com/headgate/headgate/server/telemetry/traffic/internal/seedhash"
)

const (
	// ways is the number of clients of a bucket.
	ways = 4
	// deniedWeight is the weight of a denied request; an admitted one has weight 1. It keeps denied clients in the table
	// even if many others send more requests.
	deniedWeight = 8
	// maxValues is the maximum length of a client's values in bytes. Longer values are truncated and end with a hash.
	maxValues = 72
)

// A bucket counts the clients whose hash selects it. It fits in one cache line, because a request then needs only one
// access to main memory.
type bucket struct {
	fingerprints [ways]atomic.Uint32 // of the hashes of clients, 0 if the slot is free
	weights      [ways]atomic.Uint32 // missed + requests + (deniedWeight-1)·denied
	denied       [ways]atomic.Uint32
	least        atomic.Uint32 // lower bound of the weights
	lock         atomic.Uint32 // 1 while a client enters the bucket or is erased
	_            [8]byte
}

// A slot is a client under a rule. The lock of its bucket guards it.
type slot struct {
	rule   *ruleStats
	missed atomic.Uint32 // estimate of the weight before the client entered
	shadow bool
	clientValues
}

// clientValues are the values of a client's attributes, in memory of fixed size.
type clientValues struct {
	size      uint8 // of values
	byIP      bool  // the values are the address, because an attribute of the key is missing
	truncated bool  // values are truncated, and end with a hash
	values    [maxValues]byte
}

// A table counts the requests of the heaviest clients in fixed memory. It is safe for concurrent use.
type table struct {
	seed    uint64 // odd
	mask    uint64
	buckets []bucket
	slots   []slot        // ways per bucket
	oneIn   atomic.Uint32 // largest n for which only one request in n was counted; 0 if all were counted
	used    atomic.Bool   // a client has entered since the last reset
}

// slotBytes is the memory of a table for one client, rounded up.
const slotBytes = int(unsafe.Sizeof(slot{})) + int(unsafe.Sizeof(bucket{}))/ways

// newTable returns a table for at least size clients. size must be a multiple of ways.
func newTable(seed uint64, size int) *table {
	count := 1 << bits.Len(uint(size/ways-1))
	return &table{
		seed: seed | 1, mask: uint64(count - 1),
		buckets: make([]bucket, count), slots: make([]slot, count*ways),
	}
}

// locate returns the index of a client's bucket, and the client's fingerprint in it. The seed is random in each
// process, because otherwise clients could choose names that share a bucket.
func (t *table) locate(key uint64) (at uint64, fingerprint uint32) {
	h := seedhash.Fold(key, t.seed)
	return h & t.mask, uint32(h>>32) | 1
}

// find returns the index of a client in a bucket, or ways if it is not there. It compiles to code without branches,
// which the processor could not predict.
func (b *bucket) find(fingerprint uint32) int {
	i := ways
	if b.fingerprints[0].Load() == fingerprint {
		i = 0
	}
	if b.fingerprints[1].Load() == fingerprint {
		i = 1
	}
	if b.fingerprints[2].Load() == fingerprint {
		i = 2
	}
	if b.fingerprints[3].Load() == fingerprint {
		i = 3
	}
	return i
}

func (b *bucket) empty() bool {
	return b.fingerprints[0].Load()|b.fingerprints[1].Load()|b.fingerprints[2].Load()|b.fingerprints[3].Load() == 0
}

// add counts requests of the client with the given key. There is more than one if only a sample of requests is counted.
// add returns the client's weight, 0 if the client was not in the table.
func (t *table) add(key uint64, c *engine.ClientView, rule *ruleStats, requests uint32) (weight uint32) {
	at, fingerprint := t.locate(key)
	b := &t.buckets[at]
	if i := b.find(fingerprint); i < ways {
		return b.count(i, requests, c.Denied)
	}
	if chance(requests*weightOf(c.Denied), b.least.Load()) {
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

// requestsAt returns the number of requests of the i-th client of a bucket since it entered.
func (t *table) requestsAt(at uint64, i int) uint32 {
	b := &t.buckets[at]
	denied, missed := b.denied[i].Load(), t.slotAt(at, i).missed.Load() // the weight may be written later
	weight := b.weights[i].Load()
	return weight - min(weight, missed+(deniedWeight-1)*denied)
}

// missedRequests returns the estimated number of requests of a client before it entered. It assumes that the share of
// denied requests was the same as since then.
func (t *table) missedRequests(at uint64, i int) uint32 {
	missed := uint64(t.slotAt(at, i).missed.Load())
	if missed == 0 {
		return 0
	}
	since := uint64(t.buckets[at].weights[i].Load()) - missed
	return uint32(missed * uint64(t.requestsAt(at, i)) / max(since, 1))
}

func (t *table) slotAt(at uint64, i int) *slot { return &t.slots[at*ways+uint64(i)] }

// requests returns the number of counted requests of a client, 0 if the client is not in the table.
func (t *table) requests(key uint64) uint32 {
	at, fingerprint := t.locate(key)
	if i := t.buckets[at].find(fingerprint); i < ways {
		return t.requestsAt(at, i)
	}
	return 0
}

// enter replaces the lightest client of a bucket with a new client. For a request of weight w, this must happen with
// the probability w/(weight+w), where weight is that of the lightest client. weight is then also the expected weight of
// the new client's earlier requests. The caller calls enter only with the probability w/(least+w), and enter corrects
// the probability if least is lower than weight.
func (t *table) enter(at uint64, fingerprint uint32, c *engine.ClientView, rule *ruleStats, requests uint32) {
	b := &t.buckets[at]
	if !b.lock.CompareAndSwap(0, 1) {
		return // another client enters the bucket
	}
	defer t.unlock(at)
	if i := b.find(fingerprint); i < ways { // another request of the client was faster
		b.count(i, requests, c.Denied)
		return
	}
	lightest, weight := 0, ^uint32(0)
	for i := range ways {
		if w := b.weights[i].Load(); w < weight {
			lightest, weight = i, w
		}
	}
	w, least := requests*weightOf(c.Denied), b.least.Swap(weight)
	if weight > least && !chance(least+w, weight-least) {
		return
	}
	s := t.slotAt(at, lightest)
	b.weights[lightest].Store(weight)
	s.missed.Store(weight)
	b.denied[lightest].Store(0)
	b.count(lightest, requests, c.Denied)
	b.fingerprints[lightest].Store(fingerprint)
	s.rule, s.shadow = rule, c.Shadow
	s.set(c)
	if !t.used.Load() {
		t.used.Store(true)
	}
}

// lock locks a bucket. It spins, because the lock is held only for nanoseconds.
func (t *table) lock(at uint64) {
	for !t.buckets[at].lock.CompareAndSwap(0, 1) {
		runtime.Gosched()
	}
}

func (t *table) unlock(at uint64) { t.buckets[at].lock.Store(0) }

// set copies the values of a client, because the verdict's buffer is reused.
func (v *clientValues) set(c *engine.ClientView) {
	values := c.Values
	v.byIP = c.Matched.ByIP()
	v.truncated = len(values) > maxValues
	v.size = uint8(copy(v.values[:], values))
	if v.truncated {
		sum := sha256.Sum256(unsafe.Slice(unsafe.StringData(values), len(values)))
		hex.Encode(v.values[maxValues-2*hashSuffix:], sum[:hashSuffix])
	}
}

// hashSuffix is the number of bytes of the hash that ends truncated values.
const hashSuffix = 8

// A countedClient is a copy of a client in a table, with its counts.
type countedClient struct {
	rule                     *ruleStats
	values                   string
	byIP, shadow, truncated  bool
	requests, denied, missed uint32
	oneIn                    uint32 // of the table
}

// errorFactor times (missed+1) bounds the error of missed, the estimated weight of a client before it entered a table,
// with a probability of 99 %. Each unit of weight would have entered with a probability of at least 1/(missed+1), so
// the probability that more than 5·(missed+1) units did not is below e⁻⁵.
const errorFactor = 4

// error returns the bound of the error of requests+missed.
func (c *countedClient) error() (bound uint64) {
	if c.missed > 0 {
		bound = errorFactor * (uint64(c.missed) + 1)
	}
	if c.oneIn > 1 { // 2.6 standard deviations
		bound += uint64(math.Ceil(2.6 * math.Sqrt(float64(c.oneIn-1)*float64(c.requests+c.missed))))
	}
	return bound
}

// each calls f with each client of the table. The client's bucket is locked during the call.
func (t *table) each(f func(at uint64, i int, s *slot)) {
	for at := range uint64(len(t.buckets)) {
		if t.buckets[at].empty() {
			continue
		}
		t.lock(at)
		for i := range ways {
			if s := t.slotAt(at, i); s.rule != nil {
				f(at, i, s)
			}
		}
		t.unlock(at)
	}
}

// erase removes the clients that meet a condition.
func (t *table) erase(condition func(*countedClient) bool) {
	t.each(func(at uint64, i int, s *slot) {
		if c := s.client(s.rule); condition(&c) {
			t.clear(at, i, s)
		}
	})
}

func (t *table) clear(at uint64, i int, s *slot) {
	b := &t.buckets[at]
	b.least.Store(0)
	b.fingerprints[i].Store(0)
	b.weights[i].Store(0)
	b.denied[i].Store(0)
	s.missed.Store(0)
	s.rule, s.size = nil, 0
}

// reset empties the table for another minute.
func (t *table) reset() {
	t.oneIn.Store(0)
	t.used.Store(false)
	t.each(t.clear)
}
