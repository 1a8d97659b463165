package memstore

import (
	"math"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A lockedCheck is one check of a TakeAll with locks.
type lockedCheck struct {
	operation
	slot      *slot // the key's entry, which is held; nil if the key has no entry
	word      uint64
	pair      algorithm.Pair
	next      algorithm.Pair // the pair after an allowed take
	hasRecord bool           // the key has a record

	needsRecord bool // the denial changes the pair, which then does not fit an entry

	record        []int64  // the key's record, valid until records are moved
	words         int64    // the length of the state in the record
	pinned        bool     // the record cannot be evicted
	until, denied int64    // the words of the record at atUntil and atDenied, which pin overwrites
	taken         bool     // tryRecord has taken the units from the record
	stateBefore   [5]int64 // the record's state before tryRecord
}

func (c *lockedCheck) findRecord(sh *shard) {
	if c.record = sh.records.lookup(c.hash); c.record != nil {
		c.words = c.record[atLength]
	}
}

// reserve ensures that the key of a check has a held entry or a pinned record with room for the next state. So
// reserving for the other checks cannot drop the key. A check whose cost is above the capacity needs neither. moved
// says whether entries may have moved since prefetch. moves reports whether reserve may have moved entries.
func (s *Store) reserve(c *lockedCheck, moved bool) (moves bool, err error) {
	sh := &s.shards[c.shard()]
	if c.plan.compact {
		if e := s.entry(c.hash); e != nil { // then it has no record
			entry, err := s.convertEntry(sh, &c.operation, e)
			if entry != nil && c.feasible() {
				c.hold(entry)
				return false, nil
			}
			if moves = entry == nil; err != nil {
				return moves, err
			}
		}
	}
	if c.plan.compact || moved {
		c.findRecord(sh)
	}
	if c.record != nil && !c.plan.Owns(stateOf(c.record)) {
		if _, err := s.convertRecord(sh, &c.operation, c.record); err != nil {
			return true, err
		}
		c.findRecord(sh)
		moves = true
	}
	if !c.feasible() {
		if c.record == nil && !c.plan.compact && s.entry(c.hash) != nil {
			return true, s.moveToRecord(sh, &c.operation)
		}
		return moves, nil
	}
	if c.plan.compact && c.record == nil {
		g, err := s.segmentWithRoom(&c.operation)
		if err != nil {
			s.refusals.Add(1)
			return true, err
		}
		g.add(c.tagWord(), heldBit|c.seal(algorithm.Pair{}))
		return true, nil
	}
	if c.record != nil && len(c.record) >= atState+c.wordsAfter(c.words) {
		c.hasRecord = true
		c.pin(c.record)
		return moves, nil
	}
	if err := s.moveToRecord(sh, &c.operation); err != nil {
		return true, err
	}
	record, err := s.recordWithRoom(sh, &c.operation)
	if err != nil {
		return true, err
	}
	c.pin(record)
	return true, nil
}

// pin protects the record of a check from eviction until unpin.
func (c *lockedCheck) pin(record []int64) {
	c.pinned, c.until, c.denied = true, record[atUntil], record[atDenied]
	record[atUntil], record[atDenied] = math.MaxInt64, 1
}

func (c *lockedCheck) unpin(record []int64) {
	record[atUntil], record[atDenied] = c.until, c.denied
}

// holdEntry holds the entry of the key, if it has one.
func (s *Store) holdEntry(c *lockedCheck) {
	if c.plan.IsPair() {
		if e := s.entry(c.hash); e != nil { // then it has no record
			c.hold(e)
			return
		}
	}
	c.hasRecord = !c.plan.IsPair() || s.shards[c.shard()].records.lookup(c.hash) != nil
}

// hold holds the entry of the key, so that no other goroutine changes it, and reads it.
func (c *lockedCheck) hold(e *slot) {
	c.slot, c.word = e, e.hold()&^heldBit
	c.pair = c.unseal(c.word)
}

// tryTake decides a check. commit or undo must follow, depending on the other checks. tryTake writes the decision
// to d, because copying a decision takes longer than computing it.
func (s *Store) tryTake(c *lockedCheck, d *headgate.Decision) {
	if c.pinned && c.record != nil && (c.plan.IsPair() || c.plan.kind == algorithm.KindSlidingWindow) {
		c.tryRecord(d)
		return
	}
	if c.hasRecord || !c.feasible() {
		*d = s.decideLocked(c, c.units)
		return
	}
	next, ok := c.plan.TakePair(c.pair, c.now, c.units)
	if !ok {
		*d = c.plan.DecidePair(c.pair, c.now, c.units)
		c.needsRecord = next.Last != c.pair.Last
		return
	}
	c.next = next
	c.plan.Describe(d, next, c.now, c.units)
}

// tryRecord takes from the record of a check. It saves the previous state, so that undo can restore it if another
// check is denied. Saving a short state takes less time than deciding twice.
func (c *lockedCheck) tryRecord(d *headgate.Decision) {
	state := stateOf(c.record)
	copy(c.stateBefore[:], state)
	state = c.plan.TakeInto(d, state, c.now, c.units, 0)
	if c.taken = d.Allowed; c.taken {
		c.unpin(c.record)
		c.storeState(c.record, state, d.ResetAfter)
	}
}

// decideLocked decides n units without taking them.
func (s *Store) decideLocked(c *lockedCheck, n int64) headgate.Decision {
	switch {
	case c.record != nil:
		return c.decideByRecord(c.record, n)
	case c.hasRecord:
		return s.lookupAndDecide(&s.shards[c.shard()], &c.operation, n)
	default:
		return c.plan.DecidePair(c.pair, c.now, n)
	}
}

// commit takes the units of an allowed check.
func (s *Store) commit(c *lockedCheck, d *headgate.Decision) {
	switch {
	case c.slot != nil:
		atomic.StoreUint64(&c.slot.state, c.seal(c.next)|c.plan.stillDenied(c.tag(), c.word, c.storeTime()))
	case c.taken:
	default:
		record := c.record
		if record == nil {
			record = s.shards[c.shard()].records.lookup(c.hash)
		}
		c.unpin(record)
		c.takeInPlace(record, d)
	}
}

// undo undoes reserve and tryTake. If the check was denied, it marks the key as denied.
func (s *Store) undo(c *lockedCheck, allowed bool) {
	if c.slot != nil {
		if !allowed {
			c.word |= deniedBit
		}
		if c.pair.Units == 0 { // reserve added the entry
			s.dropEntry(&c.operation, c.slot)
			return
		}
		atomic.StoreUint64(&c.slot.state, c.word)
	}
	if !c.pinned {
		return
	}
	sh := &s.shards[c.shard()]
	record := c.record
	if record == nil {
		record = sh.records.lookup(c.hash)
	}
	if c.taken {
		record[atLength] = int64(copy(record[atState:], c.stateBefore[:c.words]))
	}
	if record[atLength] == 0 { // reserve created the record
		s.drop(&sh.records, c.hash)
		c.record = nil
		return
	}
	c.unpin(record)
	if !allowed {
		c.takeInPlace(record, &headgate.Decision{}) // records the denial
	}
}
