package admission

import (
	"hash/maphash"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate"
)

const (
	denySets        = 4096 // a power of two
	denialsPerSet   = 4
	denyGenerations = 16384 // a power of two

	// Keys longer than longKeyBytes take at most maxLongBytes together.
	longKeyBytes = 256
	maxLongBytes = 16 << 20
)

// A DenyCache remembers denials. It has no lock: its entries are immutable, and are replaced with compare-and-swap. A
// key may have two entries for a while, which does no harm.
type DenyCache struct {
	seed maphash.Seed
	// hash replaces the seeded hash of keys, if it is not nil.
	hash func(key string) uint64
	hold int64 // the longest time for which a denial is remembered, in µs
	sets [denySets][denialsPerSet]atomic.Pointer[Denial]
	// generations count the operations that may end a denial, such as refunds. If the generation of a key changes during a
	// call of the store, the response is not remembered.
	generations [denyGenerations]atomic.Uint32
	longBytes   atomic.Int64 // size of all long keys
}

// NewDenyCache returns a cache that remembers denials for at most hold µs. It hashes keys with hash, or with a random
// seed if that is nil.
func NewDenyCache(hold int64, hash func(key string) uint64) *DenyCache {
	return &DenyCache{seed: maphash.MakeSeed(), hash: hash, hold: hold}
}

// Hash returns the hash of the key of a check.
func (t *DenyCache) Hash(c *headgate.Check) uint64 {
	if t.hash != nil {
		return t.hash(c.Key)
	}
	return maphash.String(t.seed, c.Key)
}

func (t *DenyCache) set(hash uint64) *[denialsPerSet]atomic.Pointer[Denial] {
	return &t.sets[hash%denySets]
}

func (t *DenyCache) generation(hash uint64) *atomic.Uint32 {
	return &t.generations[hash%denyGenerations]
}

// Generation returns the generation of a hash. Read it before a call of the store, and pass it to Learn.
func (t *DenyCache) Generation(hash uint64) uint32 { return t.generation(hash).Load() }

// Lookup returns the remembered denial of a check.
func (t *DenyCache) Lookup(hash uint64, c *headgate.Check, now int64) (headgate.Decision, bool) {
	set := t.set(hash)
	for i := range set {
		if denial := set[i].Load(); denial != nil && denial.Matches(hash, c) {
			if d, ok := denial.Decide(c.Cost, now); ok {
				return d, true
			}
		}
	}
	return headgate.Decision{}, false
}

// find returns the latest entry for a check's key and limit, or nil.
func (t *DenyCache) find(hash uint64, c *headgate.Check) *Denial {
	set := t.set(hash)
	var latest *Denial
	for i := range set {
		denial := set[i].Load()
		if denial != nil && denial.Matches(hash, c) && (latest == nil || denial.calledAt > latest.calledAt) {
			latest = denial
		}
	}
	return latest
}

// Uncertainty returns for how many µs it is not known whether a check passes whose denial has just expired.
func (t *DenyCache) Uncertainty(hash uint64, c *headgate.Check, now int64) int64 {
	if isEstimate(c) {
		return 0
	}
	if denial := t.find(hash, c); denial != nil {
		return denial.uncertainty(c.Cost, now)
	}
	return 0
}

// A Response is the store's decision of a check, with the times of call and response in µs, and the generation of the
// check's hash before the call.
type Response struct {
	CalledAt, RespondedAt int64
	Generation            uint32
	Decision              *headgate.Decision
}

// Learn remembers the denial in a response. It returns the denial even if there is no room to remember it, and nil if
// the response denies nothing.
func (t *DenyCache) Learn(hash uint64, c *headgate.Check, r Response) *Denial {
	d := r.Decision
	if d.Allowed && c.Cost == 0 {
		return nil
	}
	old := t.find(hash, c)
	var denial *Denial
	if !d.Allowed || old != nil && d.Remaining <= 0 {
		// A key that was denied lately is likely to be denied again. If no units remain, the decision may show until when.
		// Other allowed decisions get no entry, because there would be too many.
		denial = newDenial(hash, c, r.CalledAt, t.hold, d, old)
	}
	var stored *Denial
	if denial != nil {
		denial.duration = max(0, r.RespondedAt-r.CalledAt)
		if t.put(denial, r.Generation, r.CalledAt) {
			stored = denial
		}
	}
	if d.Allowed {
		t.expire(hash, c, r.CalledAt, stored)
	}
	return denial
}

// expire removes the entries of a check's key, under any limit, that come from calls up to calledAt. It keeps the entry
// except. If except is nil, the entry of the check's own limit stays, but denies nothing any more: its presence shows
// that the key was denied lately.
func (t *DenyCache) expire(hash uint64, c *headgate.Check, calledAt int64, except *Denial) {
	set := t.set(hash)
	for i := range set {
		old := set[i].Load()
		switch {
		case old == nil || old == except || old.hash != hash || old.key != c.Key || old.calledAt > calledAt:
		case except != nil || !old.Matches(hash, c):
			t.remove(&set[i], old)
		case old.until > old.calledAt:
			expired := *old
			expired.until, expired.costs = expired.calledAt, nil
			set[i].CompareAndSwap(old, &expired)
		}
	}
}

// put stores an entry. It returns false if its key has another generation now, or a later entry.
func (t *DenyCache) put(denial *Denial, generation uint32, now int64) bool {
	g := t.generation(denial.hash)
	size := longBytes(denial)
	if g.Load() != generation || size > 0 && t.longBytes.Load()+size > maxLongBytes {
		return false
	}
	denial.key, denial.owner = strings.Clone(denial.key), strings.Clone(denial.owner)
	entry := t.entryFor(denial, now)
	for old := entry.Load(); ; old = entry.Load() {
		if old != nil && old.calledAt > denial.calledAt && denial.denialID == old.denialID {
			return false
		}
		if entry.CompareAndSwap(old, denial) {
			t.longBytes.Add(size - longBytes(old))
			break
		}
	}
	if g.Load() != generation {
		t.remove(entry, denial)
		return false
	}
	return true
}

// entryFor returns the entry in which to store a denial: the entry of its key and limit or, without one, a free entry,
// an expired one or the oldest one, in this order.
func (t *DenyCache) entryFor(denial *Denial, now int64) *atomic.Pointer[Denial] {
	set := t.set(denial.hash)
	best, bestRank := 0, int64(forever)
	for i := range set {
		other := set[i].Load()
		rank := int64(-1)
		switch {
		case other == nil:
		case denial.denialID == other.denialID:
			return &set[i]
		case other.until <= now:
			rank = 0
		default:
			rank = max(1, other.calledAt)
		}
		if rank < bestRank {
			best, bestRank = i, rank
		}
	}
	return &set[best]
}

// remove clears an entry if it still holds e.
func (t *DenyCache) remove(entry *atomic.Pointer[Denial], denial *Denial) {
	if entry.CompareAndSwap(denial, nil) {
		t.longBytes.Add(-longBytes(denial))
	}
}

// Drop forgets the denials of a key, under any limit. Responses to calls that are in flight now are not remembered
// either.
func (t *DenyCache) Drop(hash uint64, key string) {
	t.generation(hash).Add(1)
	set := t.set(hash)
	for i := range set {
		if old := set[i].Load(); old != nil && old.hash == hash && old.key == key {
			t.remove(&set[i], old)
		}
	}
}

func longBytes(denial *Denial) int64 {
	if denial == nil || len(denial.key)+len(denial.owner) <= longKeyBytes {
		return 0
	}
	return int64(len(denial.key) + len(denial.owner))
}
