package memstore

import (
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/memstore/internal/hashindex"
)

// records has the records of a shard: the states that do not fit a state word. They are in pages of words without
// pointers, and an index finds them by key. A record has these words:
//
//	word 0   the key's hash
//	word 1   the length of the state in words
//	word 2   the time in µs from which the state is like that of a new key
//	word 3   1 if the key was denied since it last drained
//	word 4…  the state
//
// A class has the records of one size; a record is in the smallest class with enough words. The free records of a class
// are a linked list. In a free record, word 0 has the number of the next one plus 1, or 0 if there is none. Word 1 has
// −1. Word 2 has the number of the previous one plus 1, or 0 if there is none.
type records struct {
	index   hashindex.Index // locations by the hash of the key
	pages   int             // number of pages of all classes
	classes [maxClass + 1]sizeClass
}

const (
	atHash = iota
	atLength
	atUntil
	atDenied
	atState

	freeRecord   = -1 // word atLength of a free record
	freeNext     = atHash
	freePrevious = atUntil

	minRecord      = 8  // words in a record of class 0; each class has twice as many as the one before
	maxClass       = 19 // its records hold the largest state, that of a sliding-log in debt
	maxPerPageBits = 6  // small records share a page of 512 words
	evictSample    = 64 // records that evictRecord compares
)

// A recordLocation is the class of a record and its number in the class. It is not 0.
type recordLocation uint32

// numberBits is how many bits of a location are the record's number. The class plus 1 is above them.
const numberBits = 27

func newLocation(class uint8, number uint32) recordLocation {
	return recordLocation(class+1)<<numberBits | recordLocation(number)
}

func (l recordLocation) class() uint8   { return uint8(l>>numberBits) - 1 }
func (l recordLocation) number() uint32 { return uint32(l) & (1<<numberBits - 1) }

// A sizeClass has all records of one size.
type sizeClass struct {
	pages    [][]int64 // nil for a page that was removed
	holes    int       // number of removed pages
	capacity uint32    // number of records in all pages, including removed pages
	free     uint32    // number of the first free record plus 1, or 0
	live     uint32    // number of records in use
	cursor   uint32    // the number of the record at which eviction and sweeping continue
}

// classFor returns the smallest class whose records have at least this number of words.
func classFor(words int) uint8 {
	c := uint8(0)
	for minRecord<<c < words {
		c++
	}
	return c
}

func (c *sizeClass) pageCount() int { return len(c.pages) - c.holes }

// hasPage reports whether the page of a record exists.
func (c *sizeClass) hasPage(class uint8, number uint32) bool {
	return c.pages[number/perPage(class)] != nil
}

func pageBytes(class uint8) int64 { return int64(perPage(class)) * int64(minRecord<<class) * 8 }

// perPageBits returns the binary logarithm of the number of records in a page of a class.
func perPageBits(class uint8) uint8 { return maxPerPageBits - min(class, maxPerPageBits) }

func perPage(class uint8) uint32 { return 1 << perPageBits(class) }

func (c *sizeClass) record(class uint8, number uint32) []int64 {
	words, bits := uint32(minRecord)<<(class&31), perPageBits(class)
	page := number >> bits
	from := (number - page<<bits) * words
	return c.pages[page][from : from+words : from+words]
}

func (r *records) record(at recordLocation) []int64 {
	return r.classes[at.class()].record(at.class(), at.number())
}

// stateOf returns the state in a record. It can grow in place up to the capacity of the slice.
func stateOf(record []int64) algorithm.State {
	return record[atState : atState+record[atLength]]
}

// lookup returns the record of a key, or nil.
func (r *records) lookup(hash uint64) []int64 {
	_, record := r.locate(hash)
	return record
}

// locate returns the record of a key and its location. If the key has no record, the location is 0.
func (r *records) locate(hash uint64) (recordLocation, []int64) {
	for number, position := r.index.First(hash); number != 0; number, position = r.index.Next(hash, position) {
		at := recordLocation(number)
		if record := r.record(at); uint64(record[atHash]) == hash {
			return at, record
		}
	}
	return 0, nil
}

// recordFor returns a record of the key with room for a state of the given number of words. If the existing record is
// too small, it copies the state to a larger record. If there is no record, it adds one with an empty state.
func (s *Store) recordFor(sh *shard, op *operation, words int) ([]int64, error) {
	r, hash := &sh.records, op.hash
	class := classFor(atState + words)
	oldLocation, oldRecord := r.locate(hash)
	if len(oldRecord) >= atState+words {
		return oldRecord, nil
	}
	number, ok := s.allocate(sh, class, op)
	if !ok {
		s.refusals.Add(1)
		return nil, headgate.ErrFull
	}
	record := r.classes[class].record(class, number)
	record[atHash] = int64(hash)
	if oldRecord == nil {
		sh.setStart(op)
		clear(record[1:atState])
		r.index.Add(hash, uint32(newLocation(class, number)))
		return record, nil
	}
	copy(record[1:], oldRecord[1:atState+oldRecord[atLength]])
	r.index.Replace(hash, uint32(oldLocation), uint32(newLocation(class, number)))
	s.releaseRecord(r, oldLocation)
	return record, nil
}

// allocate returns the number of a free record of a class. If there is none, it adds a page. If memory does not allow
// that, it evicts the record of a sample that is dead, or will be dead soonest. It never evicts the record of the key
// itself, or of a key that was denied since it last drained.
func (s *Store) allocate(sh *shard, class uint8, op *operation) (uint32, bool) {
	c := &sh.records.classes[class]
	for !s.reserveRecord(hashindex.BytesPerKey) {
		if !s.evictRecord(sh, class, op) && !s.reclaimPage(sh, op) {
			return 0, false
		}
	}
	for c.free == 0 && !s.addPage(&sh.records, class) && !s.evictRecord(sh, class, op) {
		if !s.reclaimPage(sh, op) {
			s.budget.Records.Add(-hashindex.BytesPerKey)
			return 0, false
		}
	}
	number := c.free - 1
	c.unlist(class, number)
	c.live++
	return number, true
}

func (s *Store) reserveRecord(bytes int64) bool { return s.budget.Reserve(&s.budget.Records, bytes) }

// addPage adds a page of free records to a class. It returns false if memory does not allow that.
func (s *Store) addPage(r *records, class uint8) bool {
	c := &r.classes[class]
	if !s.reserveRecord(pageBytes(class)) {
		return false
	}
	page := make([]int64, pageBytes(class)/8)
	r.pages++
	at := uint32(len(c.pages))
	if c.holes > 0 {
		at = uint32(slices.IndexFunc(c.pages, func(p []int64) bool { return p == nil }))
		c.pages[at] = page
		c.holes--
	} else {
		c.pages = append(c.pages, page)
	}
	per := perPage(class)
	c.capacity = uint32(len(c.pages)) * per
	for number := at * per; number < (at+1)*per; number++ {
		c.push(class, number)
	}
	return true
}

// push adds a record to the front of the free list.
func (c *sizeClass) push(class uint8, number uint32) {
	record := c.record(class, number)
	record[freeNext], record[atLength], record[freePrevious] = int64(c.free), freeRecord, 0
	if c.free != 0 {
		c.record(class, c.free-1)[freePrevious] = int64(number) + 1
	}
	c.free = number + 1
}

// unlist removes a record from the free list.
func (c *sizeClass) unlist(class uint8, number uint32) {
	record := c.record(class, number)
	next, before := uint32(record[freeNext]), uint32(record[freePrevious])
	if next != 0 {
		c.record(class, next-1)[freePrevious] = int64(before)
	}
	if before != 0 {
		c.record(class, before-1)[freeNext] = int64(next)
	} else {
		c.free = next
	}
}

// reclaimPage frees a page of the class with the most pages and evicts its records, so that another class can use the
// memory. It skips pages with a record that must not be evicted, and returns false if it finds no other page.
func (s *Store) reclaimPage(sh *shard, op *operation) bool {
	var class uint8
	for i := range sh.records.classes {
		if sh.records.classes[i].pageCount() > sh.records.classes[class].pageCount() {
			class = uint8(i)
		}
	}
	c, per, now := &sh.records.classes[class], perPage(class), op.storeTime()
	for range min(8, len(c.pages)) {
		c.cursor = (c.cursor/per*per + per) % c.capacity
		first := c.cursor
		if !c.hasPage(class, first) || !c.evictable(class, first, op.hash, now) {
			continue
		}
		for number := first; number < first+per; number++ {
			if record := c.record(class, number); record[atLength] != freeRecord {
				if record[atUntil] > now {
					s.evictions.Add(1)
				}
				s.drop(&sh.records, uint64(record[atHash]))
			}
		}
		sh.setSwept(now)
		c.removePage(class, first)
		sh.records.pages--
		s.budget.Records.Add(-pageBytes(class))
		return true
	}
	return false
}

// evictable reports whether all records of the page that begins with first may be evicted. The record of the key with
// the hash keep must stay, because that key needs the room.
func (c *sizeClass) evictable(class uint8, first uint32, keep uint64, now int64) bool {
	for number := first; number < first+perPage(class); number++ {
		record := c.record(class, number)
		if record[atLength] == freeRecord {
			continue
		}
		if uint64(record[atHash]) == keep || record[atUntil] > now && record[atDenied] != 0 {
			return false
		}
	}
	return true
}

// removePage removes the page that begins with first, whose records are all free, from the class.
func (c *sizeClass) removePage(class uint8, first uint32) {
	for number := first; number < first+perPage(class); number++ {
		c.unlist(class, number)
	}
	c.pages[first/perPage(class)] = nil
	c.holes++
}

// evictRecord drops a record of a class, chosen as allocate says. It returns false if the sample has none to drop.
func (s *Store) evictRecord(sh *shard, class uint8, op *operation) bool {
	c, now := &sh.records.classes[class], op.storeTime()
	victim, soonest := uint32(0), int64(0)
	for range min(evictSample, c.capacity) {
		c.cursor = (c.cursor + 1) % c.capacity
		if !c.hasPage(class, c.cursor) {
			continue
		}
		record := c.record(class, c.cursor)
		if record[atLength] == freeRecord || uint64(record[atHash]) == op.hash {
			continue
		}
		until := record[atUntil]
		if until > now && record[atDenied] != 0 {
			continue
		}
		if victim == 0 || until < soonest {
			victim, soonest = c.cursor+1, until
		}
	}
	if victim == 0 {
		return false
	}
	if soonest > now {
		s.evictions.Add(1)
	}
	sh.setSwept(now)
	s.drop(&sh.records, uint64(c.record(class, victim-1)[atHash]))
	return true
}

// releaseRecord adds a record to the free list of its class.
func (s *Store) releaseRecord(r *records, at recordLocation) {
	s.budget.Records.Add(-hashindex.BytesPerKey)
	c := &r.classes[at.class()]
	c.push(at.class(), at.number())
	c.live--
}

// drop removes the record of a key, if it has one.
func (s *Store) drop(r *records, hash uint64) {
	if at, record := r.locate(hash); record != nil {
		r.index.Remove(hash, uint32(at))
		s.releaseRecord(r, at)
	}
}

// sweepRecords examines the next count records of each class and drops the dead ones. It releases the pages of an empty
// class.
func (s *Store) sweepRecords(r *records, count int, now int64) {
	for class := range r.classes {
		c := &r.classes[class]
		for range min(uint32(count), c.capacity) {
			c.cursor = (c.cursor + 1) % c.capacity
			if !c.hasPage(uint8(class), c.cursor) {
				continue
			}
			record := c.record(uint8(class), c.cursor)
			if record[atLength] != freeRecord && record[atUntil] <= now {
				s.drop(r, uint64(record[atHash]))
			}
		}
		if c.live == 0 && c.capacity > 0 {
			r.pages -= c.pageCount()
			s.budget.Records.Add(-int64(c.pageCount()) * pageBytes(uint8(class)))
			*c = sizeClass{}
		}
	}
}
