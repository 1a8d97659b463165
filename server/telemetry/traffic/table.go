package traffic

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"math/bits"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/headgate/headgate/engine"
)

const (
	// ways is the number of clients of a bucket.
	ways = 8
	// deniedWeight is the weight of a denied request. It keeps denied clients in a table among many that are not.
	deniedWeight = 8
	// maxValues is the length up to which the values of a client are kept. Longer ones are cut and get a hash.
	maxValues = 72
)

// A bucket finds the clients whose hash selects it. Its first cache line decides most requests.
type bucket struct {
	prints [ways]atomic.Uint64 // hashes of clients, 0 if the slot is free
	lock   atomic.Uint32
	floor  atomic.Uint32 // bound of the weight of any client that is not in the bucket
	least  atomic.Uint32 // lower bound of the weights in the bucket
	_      [52]byte
}

// A slot is a client under a rule. The lock of its bucket guards the fields that are not atomic.
type slot struct {
	requests, denied atomic.Uint32
	sampling         atomic.Uint32 // the generation of the rule's sampling + 1 if the client is not sampled
	missed           uint32        // bound of the weight before the client entered the table
	rule             *ruleStats
	shadow           bool
	slotValues
}

// slotValues are the values of a client, in fixed memory.
type slotValues struct {
	size   uint8 // of values
	byIP   bool
	cut    bool // values are cut, and end with a hash
	values [maxValues]byte
}

func (s *slot) weight() uint32 {
	return s.missed + s.requests.Load() + (deniedWeight-1)*s.denied.Load()
}

// A table counts the requests of the heaviest clients in fixed memory. It is safe for concurrent use.
type table struct {
	seed    maphash.Seed
	mask    uint64
	buckets []bucket
	slots   []slot // ways per bucket
}

// slotBytes is the memory of a table for one client.
const slotBytes = int(unsafe.Sizeof(slot{})) + int(unsafe.Sizeof(bucket{}))/ways

// newTable returns a table for at least size clients; size is a multiple of ways.
func newTable(seed maphash.Seed, size int) *table {
	count := 1 << bits.Len(uint(size/ways-1))
	return &table{seed: seed, mask: uint64(count - 1), buckets: make([]bucket, count), slots: make([]slot, count*ways)}
}

// add counts a request of a client. It returns the client's slot and its requests, nil if it is not in the table.
func (t *table) add(c *engine.ClientView, rule *ruleStats) (*slot, uint32) {
	h := (maphash.String(t.seed, c.Values) ^ rule.hash) | 1
	at := (h >> 32) & t.mask
	b := &t.buckets[at]
	for i := range ways {
		if b.prints[i].Load() == h {
			s := &t.slots[at*ways+uint64(i)]
			count := s.requests.Add(1)
			if c.Denied {
				s.denied.Add(1)
			}
			return s, count
		}
	}
	weight := uint32(1)
	if c.Denied {
		weight = deniedWeight
	}
	floor := b.floor.Add(weight)
	if floor >= b.least.Load() {
		t.enter(at, h, c, rule, floor, weight)
	}
	return nil, 0
}

// enter replaces the lightest client of a bucket, if it is not heavier than floor.
func (t *table) enter(at, h uint64, c *engine.ClientView, rule *ruleStats, floor, weight uint32) {
	b := &t.buckets[at]
	if !b.lock.CompareAndSwap(0, 1) {
		return // another client enters the bucket: this request stays in floor
	}
	defer b.lock.Store(0)
	slots := t.slots[at*ways : at*ways+ways]
	lightest, least, next := 0, ^uint32(0), ^uint32(0)
	for i := range slots {
		if b.prints[i].Load() == h {
			slots[i].requests.Add(1)
			return
		}
		switch w := slots[i].weight(); {
		case w < least:
			lightest, least, next = i, w, least
		case w < next:
			next = w
		}
	}
	if floor < least {
		b.least.Store(least)
		return
	}
	s := &slots[lightest]
	b.prints[lightest].Store(h)
	s.requests.Store(1)
	s.denied.Store(weight / deniedWeight)
	s.sampling.Store(0)
	s.missed, s.rule, s.shadow = floor-weight, rule, c.Shadow
	s.set(c)
	b.floor.Store(least)
	b.least.Store(min(next, floor))
}

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
}

// clients returns all clients of the table.
func (t *table) clients() []counted {
	var list []counted
	for at := range t.buckets {
		b := &t.buckets[at]
		for !b.lock.CompareAndSwap(0, 1) {
			runtime.Gosched() // it is held for nanoseconds
		}
		for i := range ways {
			if b.prints[i].Load() == 0 {
				continue
			}
			s := &t.slots[at*ways+i]
			list = append(list, counted{
				rule: s.rule, values: string(s.values[:s.size]), byIP: s.byIP, shadow: s.shadow, cut: s.cut,
				requests: s.requests.Load(), denied: s.denied.Load(), missed: s.missed,
			})
		}
		b.lock.Store(0)
	}
	return list
}

// erase removes the clients that meet a condition.
func (t *table) erase(condition func(*counted) bool) {
	for at := range t.buckets {
		b := &t.buckets[at]
		for i := range ways {
			s := &t.slots[at*ways+i]
			for !b.lock.CompareAndSwap(0, 1) {
				runtime.Gosched()
			}
			if s.rule != nil {
				c := counted{rule: s.rule, values: string(s.values[:s.size]), byIP: s.byIP, cut: s.cut}
				if condition(&c) {
					b.prints[i].Store(0)
					s.requests.Store(0)
					s.denied.Store(0)
					s.missed, s.rule, s.size = 0, nil, 0
					b.least.Store(0)
				}
			}
			b.lock.Store(0)
		}
	}
}

// reset empties the table for another minute.
func (t *table) reset() {
	for at := range t.buckets {
		b := &t.buckets[at]
		for !b.lock.CompareAndSwap(0, 1) {
			runtime.Gosched()
		}
		for i := range ways {
			b.prints[i].Store(0)
			s := &t.slots[at*ways+i]
			s.requests.Store(0)
			s.denied.Store(0)
			s.missed, s.rule, s.size = 0, nil, 0
		}
		b.floor.Store(0)
		b.least.Store(0)
		b.lock.Store(0)
	}
}
