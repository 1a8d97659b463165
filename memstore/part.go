package memstore

import (
	"math"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A part is one check of a TakeAll with locks.
type part struct {
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

func (p *part) findRecord(sh *shard) {
	if p.record = sh.records.lookup(p.hash); p.record != nil {
		p.words = p.record[atLength]
	}
}

// reservePart ensures that the key of a part has a held entry or a pinned record with room for the next state. So
// reserving the other parts cannot drop the key. A part whose cost is above the capacity needs neither. moved says
// whether entries may have moved since prefetch. moves reports whether reservePart may have moved entries.
func (s *Store) reservePart(p *part, moved bool) (moves bool, err error) {
	sh := &s.shards[p.shard()]
	if p.plan.compact {
		if e := s.entry(p.hash); e != nil { // then it has no record
			entry, err := s.convertEntry(sh, &p.operation, e)
			if entry != nil && p.feasible() {
				p.hold(entry)
				return false, nil
			}
			if moves = entry == nil; err != nil {
				return moves, err
			}
		}
	}
	if p.plan.compact || moved {
		p.findRecord(sh)
	}
	if p.record != nil && !p.plan.Owns(stateOf(p.record)) {
		if _, err := s.convertRecord(sh, &p.operation, p.record); err != nil {
			return true, err
		}
		p.findRecord(sh)
		moves = true
	}
	if !p.feasible() {
		if p.record == nil && !p.plan.compact && s.entry(p.hash) != nil {
			return true, s.moveToRecord(sh, &p.operation)
		}
		return moves, nil
	}
	if p.plan.compact && p.record == nil {
		g, err := s.segmentWithRoom(&p.operation)
		if err != nil {
			s.refusals.Add(1)
			return true, err
		}
		g.add(p.tagWord(), heldBit|p.seal(algorithm.Pair{}))
		return true, nil
	}
	if p.record != nil && len(p.record) >= atState+p.wordsAfter(p.words) {
		p.hasRecord = true
		p.pin(p.record)
		return moves, nil
	}
	if err := s.moveToRecord(sh, &p.operation); err != nil {
		return true, err
	}
	record, err := s.recordWithRoom(sh, &p.operation)
	if err != nil {
		return true, err
	}
	p.pin(record)
	return true, nil
}

// pin protects the record of a part from eviction until unpin.
func (p *part) pin(record []int64) {
	p.pinned, p.until, p.denied = true, record[atUntil], record[atDenied]
	record[atUntil], record[atDenied] = math.MaxInt64, 1
}

func (p *part) unpin(record []int64) {
	record[atUntil], record[atDenied] = p.until, p.denied
}

// holdPart holds the entry of a part, if its key has one.
func (s *Store) holdPart(p *part) {
	if p.plan.IsPair() {
		if e := s.entry(p.hash); e != nil { // then it has no record
			p.hold(e)
			return
		}
	}
	p.hasRecord = !p.plan.IsPair() || s.shards[p.shard()].records.lookup(p.hash) != nil
}

// hold holds the entry of the part's key, so that no other goroutine changes it, and reads it.
func (p *part) hold(e *slot) {
	p.slot, p.word = e, e.hold()&^heldBit
	p.pair = p.unseal(p.word)
}

// tryPart decides a part. takePart or restorePart must follow, depending on the other parts. tryPart writes the
// decision to d, because copying a decision takes longer than computing it.
func (s *Store) tryPart(p *part, d *headgate.Decision) {
	if p.pinned && p.record != nil && (p.plan.IsPair() || p.plan.kind == algorithm.KindWindows) {
		p.tryRecord(d)
		return
	}
	if p.hasRecord || !p.feasible() {
		*d = s.decidePart(p, p.units)
		return
	}
	next, ok := p.plan.TakePair(p.pair, p.now, p.units)
	if !ok {
		*d = p.plan.DecidePair(p.pair, p.now, p.units)
		p.needsRecord = next.Last != p.pair.Last
		return
	}
	p.next = next
	p.plan.Describe(d, next, p.now, p.units)
}

// tryRecord takes from the record of a part. It saves the previous state, so that restorePart can restore it if another
// part is denied. Saving a short state takes less time than deciding twice.
func (p *part) tryRecord(d *headgate.Decision) {
	state := stateOf(p.record)
	copy(p.stateBefore[:], state)
	state, *d = p.plan.Take(state, p.now, p.units, 0)
	if p.taken = d.Allowed; p.taken {
		p.unpin(p.record)
		p.storeState(p.record, state, d.ResetAfter)
	}
}

// decidePart decides n units of a part without taking them.
func (s *Store) decidePart(p *part, n int64) headgate.Decision {
	switch {
	case p.record != nil:
		return p.decideByRecord(p.record, n)
	case p.hasRecord:
		return s.lookupAndDecide(&s.shards[p.shard()], &p.operation, n)
	default:
		return p.plan.DecidePair(p.pair, p.now, n)
	}
}

// takePart takes the units of an allowed part.
func (s *Store) takePart(p *part, d *headgate.Decision) {
	switch {
	case p.slot != nil:
		atomic.StoreUint64(&p.slot.state, p.seal(p.next)|p.plan.stillDenied(p.tag(), p.word, p.storeTime()))
	case p.taken:
	default:
		record := p.record
		if record == nil {
			record = s.shards[p.shard()].records.lookup(p.hash)
		}
		p.unpin(record)
		*d = p.takeInPlace(record)
	}
}

// restorePart undoes reservePart and tryPart. If the part was denied, it marks the key as denied.
func (s *Store) restorePart(p *part, allowed bool) {
	if p.slot != nil {
		if !allowed {
			p.word |= deniedBit
		}
		if p.pair.Units == 0 { // reservePart added the entry
			s.dropEntry(&p.operation, p.slot)
			return
		}
		atomic.StoreUint64(&p.slot.state, p.word)
	}
	if !p.pinned {
		return
	}
	sh := &s.shards[p.shard()]
	record := p.record
	if record == nil {
		record = sh.records.lookup(p.hash)
	}
	if p.taken {
		record[atLength] = int64(copy(record[atState:], p.stateBefore[:p.words]))
	}
	if record[atLength] == 0 { // reservePart created the record
		s.drop(&sh.records, p.hash)
		p.record = nil
		return
	}
	p.unpin(record)
	if !allowed {
		p.takeInPlace(record) // records the denial
	}
}
