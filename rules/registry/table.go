package registry

import (
	"math/bits"
	"sync/atomic"

	"github.com/headgate/headgate/internal/pages"
)

// A valueHash is the keyed 128-bit hash of an attribute and its value.
type valueHash [2]uint64

// A table maps hashes to clients. It is a hash table with linear probing. Readers take no lock; writers must hold one.
//
// Usually a lookup has only one cache miss, for the slot. The limits of most clients differ only in their Count, which
// is in the slot. Such clients share an Entry, which is likely to be in the cache.
type table struct {
	slots atomic.Pointer[[]slot]
	used  int // slots that have or had a client
	count int // slots that have a client
}

// A slot holds one client. It changes only when the client is replaced or removed.
type slot struct {
	hash  valueHash
	count int64                 // the Count of the client's limit
	entry atomic.Pointer[Entry] // nil if the slot was never used; written last, so that readers find complete slots
}

// largeTable is the number of slots (4 MiB) from which on large pages make a table faster.
const largeTable = 1 << 17

// removedEntry marks the slot of a client that was removed. Such slots become free when the table is rebuilt.
var removedEntry = &Entry{}

// search returns the slot with a hash. If there is none, it returns the unused slot at which the search ends, and
// a nil entry. At least one slot must be unused.
func search(slots []slot, hash valueHash) (s *slot, entry *Entry) {
	at, _ := bits.Mul64(hash[0], uint64(len(slots)))
	for {
		s = &slots[at]
		if entry = s.entry.Load(); entry == nil || s.hash == hash && entry != removedEntry {
			return s, entry
		}
		if at++; at == uint64(len(slots)) {
			at = 0
		}
	}
}

// find returns the client with a hash, or an absent Client if there is none.
func (t *table) find(hash valueHash) Client {
	slots := t.slots.Load()
	if slots == nil {
		return Client{}
	}
	s, entry := search(*slots, hash)
	if entry == nil {
		return Client{}
	}
	return Client{entry, s.count}
}

// set adds or replaces the client with a hash, or removes it if c is absent. A replaced client gets a new slot after
// the old one, so that readers always find the old or the new client.
func (t *table) set(hash valueHash, c Client) {
	t.reserve(1)
	slots := *t.slots.Load()
	old, before := search(slots, hash)
	if !c.Absent() {
		insert(slots, hash, c)
		t.used++
		t.count++
	}
	if before != nil {
		old.entry.Store(removedEntry)
		t.count--
	}
}

// insert stores a client in the first unused slot.
func insert(slots []slot, hash valueHash, c Client) {
	at, _ := bits.Mul64(hash[0], uint64(len(slots)))
	for slots[at].entry.Load() != nil {
		at = (at + 1) % uint64(len(slots))
	}
	s := &slots[at]
	s.hash, s.count = hash, c.count
	s.entry.Store(c.Entry)
}

// reserve makes room for more clients. If more than 4/5 of the slots would be used, it rebuilds the table so that the
// clients use 3/5 of the slots.
func (t *table) reserve(more int) {
	old := t.slots.Load()
	if old != nil && (t.used+more)*5 <= len(*old)*4 {
		return
	}
	slots := make([]slot, max(16, (t.count+more)*5/3))
	if len(slots) >= largeTable {
		pages.PreferLarge(slots)
	}
	if old != nil {
		for i := range *old {
			s := &(*old)[i]
			if entry := s.entry.Load(); entry != nil && entry != removedEntry {
				insert(slots, s.hash, Client{entry, s.count})
			}
		}
	}
	t.used = t.count
	t.slots.Store(&slots)
}
