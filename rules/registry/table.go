package registry

import (
	"math/bits"
	"sync/atomic"
)

// A valueHash is the keyed 128-bit hash of an attribute and its value.
type valueHash [2]uint64

// A table maps hashes to entries. It is a hash table with linear probing: readers take no lock, writers must hold one.
// A plain map would need a lock for readers, too.
type table struct {
	slots atomic.Pointer[[]slot]
	used  int // slots with an entry, including removedEntry
	count int // slots with an entry other than removedEntry
}

// A slot holds one entry. Its hash is written before the first entry, and never changes.
type slot struct {
	hash  valueHash
	entry atomic.Pointer[Entry] // nil if the slot was never used
}

// removedEntry stands for an entry that was removed. The slot becomes free when the table is rebuilt.
var removedEntry = &Entry{}

// search returns the slot with a hash, or else the unused slot where it belongs. One slot at least must be unused.
func search(slots []slot, hash valueHash) (s *slot, entry *Entry) {
	at, _ := bits.Mul64(hash[0], uint64(len(slots)))
	for {
		s = &slots[at]
		if entry = s.entry.Load(); entry == nil || s.hash == hash {
			return s, entry
		}
		if at++; at == uint64(len(slots)) {
			at = 0
		}
	}
}

// find returns the entry with a hash: nil if there never was one, removedEntry if it was removed.
func (t *table) find(hash valueHash) *Entry {
	slots := t.slots.Load()
	if slots == nil {
		return nil
	}
	_, entry := search(*slots, hash)
	return entry
}

// set adds or replaces the entry with a hash. With removedEntry it removes the entry.
func (t *table) set(hash valueHash, entry *Entry) {
	t.reserve(1)
	s, old := search(*t.slots.Load(), hash)
	if old == nil {
		s.hash = hash
		t.used++
	}
	if old != nil && old != removedEntry {
		t.count--
	}
	if entry != removedEntry {
		t.count++
	}
	s.entry.Store(entry)
}

// reserve makes room for more entries. It rebuilds the table when four of five slots are used, so that three of five
// are.
func (t *table) reserve(more int) {
	old := t.slots.Load()
	if old != nil && (t.used+more)*5 <= len(*old)*4 {
		return
	}
	slots := make([]slot, max(16, (t.count+more)*5/3))
	if old != nil {
		for i := range *old {
			if entry := (*old)[i].entry.Load(); entry != nil && entry != removedEntry {
				s, _ := search(slots, (*old)[i].hash)
				s.hash = (*old)[i].hash
				s.entry.Store(entry)
			}
		}
	}
	t.used = t.count
	t.slots.Store(&slots)
}
