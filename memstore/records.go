package memstore

import (
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// records keeps the states that do not fit a state word: in pages of words, without pointers, found through a map
// without pointers. A record is
//
//	word 0   the key's hash
//	word 1   how long the state is
//	word 2   when the state is as good as none, in µs
//	word 3   1 if the key was denied since it last drained
//	word 4…  the state
//
// and lives in the smallest class that holds it. A free record has the number of the next free one in word 0, −1 in
// word 1 and the number of the one before it in word 2; numbers plus 1, and 0 for none.
type records struct {
	index   map[uint64]recordLocation
	peak    int // the largest size of the index
	pages   int // of all classes
	classes [maxClass + 1]class
}

const (
	recordHash = iota
	recordWords
	recordUntil
	recordDenied
	recordState

	freeRecord = -1
	freeNext   = recordHash
	freeBefore = recordUntil

	minRecord   = 8 // words
	maxClass    = 19
	pageWords   = 512
	indexBytes  = 32 // of the map, for one record
	keptIndex   = 64 // records up to which the index keeps its memory when it is empty
	evictSample = 64
)

// A recordLocation says where a record is: its class and its number in it.
type recordLocation struct {
	class  uint8
	number uint32
}

// A class holds records of one size.
type class struct {
	pages [][]int64 // nil for a page that was removed
	holes int       // removed pages
	made  uint32    // records that the pages have room for
	free  uint32    // number of the first free record, plus 1
	live  uint32
	hand  uint32 // where eviction and sweeping look next
}

func classFor(words int) uint8 {
	c := uint8(0)
	for minRecord<<c < words {
		c++
	}
	return c
}

// has reports whether the page of a record is there.
func (c *class) has(size uint8, number uint32) bool { return c.pages[number/perPage(size)] != nil }

func pageBytes(size uint8) int64 { return int64(perPage(size)) * int64(minRecord<<size) * 8 }

func perPage(c uint8) uint32 { return max(1, uint32(pageWords/(minRecord<<c))) }

func (c *class) at(size uint8, number uint32) []int64 {
	words, per := uint32(minRecord)<<size, perPage(size)
	from := number % per * words
	return c.pages[number/per][from : from+words : from+words]
}

func (r *records) at(p recordLocation) []int64 { return r.classes[p.class].at(p.class, p.number) }

// stateOf returns the state in a record, with the record's whole room as its capacity.
func stateOf(record []int64) algorithm.State {
	return record[recordState : recordState+record[recordWords]]
}

// lookup returns the record of a key, or nil.
func (r *records) lookup(hash uint64) []int64 {
	if p, ok := r.index[hash]; ok {
		return r.at(p)
	}
	return nil
}

// fit returns the record of a key with room for a state of that many words: the one that is there, a larger one with
// the same state, or a new one with an empty state.
func (s *Store) fit(sh *shard, a *ask, words int) ([]int64, error) {
	r, hash := &sh.wide, a.hash
	size := classFor(recordState + words)
	old, exists := r.index[hash]
	if exists && old.class >= size {
		return r.at(old), nil
	}
	number, ok := s.allocate(sh, size, a)
	if !ok {
		s.refusals.Add(1)
		return nil, headgate.ErrFull
	}
	if !exists {
		sh.begin(a)
	}
	record := r.classes[size].at(size, number)
	record[recordHash] = int64(hash)
	if exists {
		was := r.at(old)
		copy(record[1:], was[1:recordState+was[recordWords]])
		s.releaseRecord(r, old)
	} else {
		clear(record[1:recordState])
	}
	if r.index == nil {
		r.index = make(map[uint64]recordLocation)
	}
	r.index[hash] = recordLocation{size, number}
	r.peak = max(r.peak, len(r.index))
	return record, nil
}

// allocate returns a free record of a class. If need be it adds a page or, where memory does not allow that, evicts a
// record that is dead or, of some, has the least left to remember. It spares the record of the key that asks and those
// that were denied since they last drained.
func (s *Store) allocate(sh *shard, size uint8, a *ask) (uint32, bool) {
	c := &sh.wide.classes[size]
	for !s.reserveRecord(indexBytes) {
		if !s.evictRecord(sh, size, a) && !s.reclaimPage(sh, a) {
			return 0, false
		}
	}
	for c.free == 0 && !s.addPage(&sh.wide, size) && !s.evictRecord(sh, size, a) {
		if !s.reclaimPage(sh, a) {
			s.budget.records.Add(-indexBytes)
			return 0, false
		}
	}
	number := c.free - 1
	c.pull(size, number)
	c.live++
	return number, true
}

func (s *Store) reserveRecord(bytes int64) bool { return s.budget.reserve(&s.budget.records, bytes) }

func (s *Store) addPage(r *records, size uint8) bool {
	c := &r.classes[size]
	if !s.reserveRecord(pageBytes(size)) {
		return false
	}
	page := make([]int64, pageBytes(size)/8)
	r.pages++
	at := uint32(len(c.pages))
	if c.holes > 0 {
		at = uint32(slices.IndexFunc(c.pages, func(p []int64) bool { return p == nil }))
		c.pages[at] = page
		c.holes--
	} else {
		c.pages = append(c.pages, page)
	}
	per := perPage(size)
	c.made = uint32(len(c.pages)) * per
	for number := at * per; number < (at+1)*per; number++ {
		c.push(size, number)
	}
	return true
}

// push adds a record to the front of the free list.
func (c *class) push(size uint8, number uint32) {
	record := c.at(size, number)
	record[freeNext], record[recordWords], record[freeBefore] = int64(c.free), freeRecord, 0
	if c.free != 0 {
		c.at(size, c.free-1)[freeBefore] = int64(number) + 1
	}
	c.free = number + 1
}

// pull removes a record from the free list.
func (c *class) pull(size uint8, number uint32) {
	record := c.at(size, number)
	next, before := uint32(record[freeNext]), uint32(record[freeBefore])
	if next != 0 {
		c.at(size, next-1)[freeBefore] = int64(before)
	}
	if before != 0 {
		c.at(size, before-1)[freeNext] = int64(next)
	} else {
		c.free = next
	}
}

// reclaimPage removes a page from the class with the most pages, and evicts its records, so that states of one size do
// not keep out those of another. It spares pages with a record that may not be evicted.
func (s *Store) reclaimPage(sh *shard, a *ask) bool {
	var size uint8
	for i := range sh.wide.classes {
		if c := &sh.wide.classes[i]; len(c.pages)-c.holes > len(sh.wide.classes[size].pages)-sh.wide.classes[size].holes {
			size = uint8(i)
		}
	}
	c, per, now := &sh.wide.classes[size], perPage(size), a.now+a.behind
	for range min(8, len(c.pages)) {
		c.hand = (c.hand/per*per + per) % c.made
		first := c.hand
		if !c.has(size, first) || !c.evictable(size, first, a.hash, now) {
			continue
		}
		for number := first; number < first+per; number++ {
			if record := c.at(size, number); record[recordWords] != freeRecord {
				if record[recordUntil] > now {
					s.evictions.Add(1)
				}
				s.drop(&sh.wide, uint64(record[recordHash]))
			}
		}
		sh.sweptAt(now)
		c.unlink(size, first)
		sh.wide.pages--
		s.budget.records.Add(-pageBytes(size))
		return true
	}
	return false
}

// evictable reports whether all records of the page that begins with first may be evicted for a key.
func (c *class) evictable(size uint8, first uint32, asks uint64, now int64) bool {
	for number := first; number < first+perPage(size); number++ {
		record := c.at(size, number)
		if record[recordWords] == freeRecord {
			continue
		}
		if uint64(record[recordHash]) == asks || record[recordUntil] > now && record[recordDenied] != 0 {
			return false
		}
	}
	return true
}

// unlink removes the page that begins with first, whose records are all free, from the class.
func (c *class) unlink(size uint8, first uint32) {
	for number := first; number < first+perPage(size); number++ {
		c.pull(size, number)
	}
	c.pages[first/perPage(size)] = nil
	c.holes++
}

func (s *Store) evictRecord(sh *shard, size uint8, a *ask) bool {
	c, now := &sh.wide.classes[size], a.now+a.behind
	victim, least := uint32(0), int64(0)
	for range min(evictSample, c.made) {
		c.hand = (c.hand + 1) % c.made
		if !c.has(size, c.hand) {
			continue
		}
		record := c.at(size, c.hand)
		if record[recordWords] == freeRecord || uint64(record[recordHash]) == a.hash {
			continue
		}
		until := record[recordUntil]
		if until > now && record[recordDenied] != 0 {
			continue
		}
		if victim == 0 || until < least {
			victim, least = c.hand+1, until
		}
	}
	if victim == 0 {
		return false
	}
	if least > now {
		s.evictions.Add(1)
	}
	sh.sweptAt(now)
	s.drop(&sh.wide, uint64(c.at(size, victim-1)[recordHash]))
	return true
}

// releaseRecord puts a record back into its class.
func (s *Store) releaseRecord(r *records, p recordLocation) {
	s.budget.records.Add(-indexBytes)
	c := &r.classes[p.class]
	c.push(p.class, p.number)
	c.live--
}

// drop forgets a key.
func (s *Store) drop(r *records, hash uint64) {
	if p, ok := r.index[hash]; ok {
		if delete(r.index, hash); len(r.index) == 0 && r.peak > keptIndex {
			r.index, r.peak = nil, 0 // a map does not shrink
		}
		s.releaseRecord(r, p)
	}
}

// sweepRecords drops the dead among the next records of each class, at most most of them, and releases the pages of an
// empty class.
func (s *Store) sweepRecords(r *records, most int, now int64) {
	for size := range r.classes {
		c := &r.classes[size]
		for range min(uint32(most), c.made) {
			c.hand = (c.hand + 1) % c.made
			if !c.has(uint8(size), c.hand) {
				continue
			}
			record := c.at(uint8(size), c.hand)
			if record[recordWords] != freeRecord && record[recordUntil] <= now {
				s.drop(r, uint64(record[recordHash]))
			}
		}
		if c.live == 0 && c.made > 0 {
			pages := len(c.pages) - c.holes
			r.pages -= pages
			s.budget.records.Add(-int64(pages) * pageBytes(uint8(size)))
			*c = class{}
		}
	}
}
