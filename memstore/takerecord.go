package memstore

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// takeByRecord is take for a plan whose states do not fit a state word. The state of the key is in a record.
func (s *Store) takeByRecord(op *operation, d *headgate.Decision) error {
	sh := s.lockFor(op)
	defer sh.mu.Unlock()
	record := sh.records.lookup(op.hash)
	if record == nil {
		if err := s.moveToRecord(sh, op); err != nil {
			return err
		}
		record = sh.records.lookup(op.hash)
	}
	return s.takeGrowing(sh, op, record, d)
}

// takeGrowing takes from the record of a key, and creates or enlarges the record if needed. The shard is locked.
func (s *Store) takeGrowing(sh *shard, op *operation, record []int64, d *headgate.Decision) (err error) {
	words := op.plan.initialWords
	if record != nil {
		if record, err = s.convertRecord(sh, op, record); err != nil {
			return err
		}
		words = op.wordsAfter(record[atLength])
	}
	if len(record) < atState+words {
		if record != nil {
			if denial := op.decideByRecord(record, op.units); !denial.Allowed { // it needs no more room
				*d = denial
				return nil
			}
		}
		if record, err = s.recordFor(sh, op, words); err != nil {
			return err
		}
	}
	op.takeInPlace(record, d)
	return nil
}

// lookupAndDecide calls decideByRecord for the record of a key. Without a record, it decides as for a new key.
func (s *Store) lookupAndDecide(sh *shard, op *operation, n int64) headgate.Decision {
	record := sh.records.lookup(op.hash)
	if record == nil {
		return op.plan.Decide(nil, op.now, n)
	}
	return op.decideByRecord(record, n)
}

// decideByRecord decides whether the state in a record allows n units, and marks the record after a denial.
func (op *operation) decideByRecord(record []int64, n int64) headgate.Decision {
	d := op.plan.Decide(stateOf(record), op.now, n)
	if !d.Allowed {
		op.markDenied(record, d.ResetAfter)
	}
	return d
}

// markDenied marks the record of a key that is denied.
func (op *operation) markDenied(record []int64, resetAfter time.Duration) {
	record[atDenied] = 1
	// If the limit was lowered, the consumed units drain more slowly than record[atUntil] assumes.
	record[atUntil] = max(record[atUntil], op.liveUntil(record, resetAfter))
}

// takeInPlace takes from a record that has room for the next state, or marks it as denied.
func (op *operation) takeInPlace(record []int64, d *headgate.Decision) {
	lease := uint64(0)
	if op.plan.kind == algorithm.KindLeases {
		lease = newLease()
	}
	state := op.plan.TakeInto(d, stateOf(record), op.now, op.units, lease)
	if !d.Allowed {
		op.markDenied(record, d.ResetAfter)
		return
	}
	op.storeState(record, state, d.ResetAfter)
}

// recordWithRoom returns the record of a key, with its state converted to the plan and with room for one more step.
func (s *Store) recordWithRoom(sh *shard, op *operation) ([]int64, error) {
	words := op.plan.initialWords
	if record := sh.records.lookup(op.hash); record != nil {
		record, err := s.convertRecord(sh, op, record)
		if err != nil {
			return nil, err
		}
		words = op.wordsAfter(record[atLength])
	}
	return s.recordFor(sh, op, words)
}

// wordsAfter returns the largest length of a state after one more step, given its present length. Lengths are in words.
func (op *operation) wordsAfter(words int64) int {
	return max(op.plan.initialWords, int(words)+op.plan.growth)
}

// storeState stores the state after a step, and the time until which the record must be kept. If the key had drained,
// it clears atDenied.
func (op *operation) storeState(record []int64, state algorithm.State, resetAfter time.Duration) {
	if record[atUntil] <= op.storeTime() {
		record[atDenied] = 0
	}
	record[atLength] = int64(copy(record[atState:], state))
	record[atUntil] = op.liveUntil(record, resetAfter)
}

// liveUntil returns when the record may be dropped, by the store's clock.
func (op *operation) liveUntil(record []int64, resetAfter time.Duration) int64 {
	us := resetAfter.Microseconds()
	if record[atDenied] != 0 {
		us = deniedLife(us)
	}
	return op.storeTime() + us
}

// moveToRecord moves the entry of a key, if it has one, to a record, because its limit or a debt does not fit a state
// word.
func (s *Store) moveToRecord(sh *shard, op *operation) error {
	if sh.records.lookup(op.hash) != nil {
		return nil
	}
	e := s.entry(op.hash)
	if e == nil {
		return nil
	}
	record, err := s.recordWithRoom(sh, op)
	if err != nil {
		return err
	}
	word := e.hold() // until the tag is a tombstone
	state := s.convertState(op, atomic.LoadUint64(&e.tag), word)
	atomic.StoreUint64(&e.tag, tombstone<<layoutBits)
	if word&deniedBit != 0 {
		record[atDenied], record[atUntil] = 1, math.MaxInt64 // not drained, so storeState keeps the mark
	}
	op.storeState(record, state, op.plan.Decide(state, op.now, 0).ResetAfter)
	return nil
}

// newLease returns a random lease ID, within the 53 bits that every store can represent.
func newLease() uint64 { return rand.Uint64()>>11 | 1 }
