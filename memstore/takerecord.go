package memstore

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// takeWithRecord decides a check of a key whose state does not fit a state word, and so is in a record.
func (s *Store) takeWithRecord(a *access) (headgate.Decision, error) {
	sh := s.lockFor(a)
	defer sh.mu.Unlock()
	if record := sh.records.lookup(a.hash); record != nil {
		return s.takeFromRecord(sh, a, record)
	}
	if err := s.moveToRecord(sh, a); err != nil {
		return headgate.Decision{}, err
	}
	return s.takeFromRecord(sh, a, sh.records.lookup(a.hash))
}

// takeFromRecord takes from the record of a key, and creates a record if record is nil. The shard is locked.
func (s *Store) takeFromRecord(sh *shard, a *access, record []int64) (headgate.Decision, error) {
	words := a.plan.firstWords
	if record != nil {
		var err error
		if record, err = s.convertRecord(sh, a, record); err != nil {
			return headgate.Decision{}, err
		}
		words = a.wordsAfter(record[recordWords])
	}
	if len(record) < recordState+words {
		if record != nil {
			if d := a.decideRecord(record, a.n); !d.Allowed { // a denial needs no more room
				return d, nil
			}
		}
		var err error
		if record, err = s.recordFor(sh, a, words); err != nil {
			return headgate.Decision{}, err
		}
	}
	return a.takeRecord(record), nil
}

// decideByRecord decides n units by the record of a key, and marks the record if it denies.
func (s *Store) decideByRecord(sh *shard, a *access, n int64) headgate.Decision {
	record := sh.records.lookup(a.hash)
	if record == nil {
		return a.plan.Decide(nil, a.now, n)
	}
	return a.decideRecord(record, n)
}

func (a *access) decideRecord(record []int64, n int64) headgate.Decision {
	d := a.plan.Decide(stateOf(record), a.now, n)
	if !d.Allowed {
		a.markDenied(record, d.ResetAfter)
	}
	return d
}

// markDenied marks the record of a key that is denied.
func (a *access) markDenied(record []int64, resetAfter time.Duration) {
	record[recordDenied] = 1
	// If the limit was lowered, the consumed units drain more slowly than recordUntil assumes.
	record[recordUntil] = max(record[recordUntil], a.liveUntil(record, resetAfter))
}

// takeRecord takes from a record that has room for the next state, or marks it as denied.
func (a *access) takeRecord(record []int64) headgate.Decision {
	lease := uint64(0)
	if a.plan.kind == algorithm.KindLeases {
		lease = newLease()
	}
	state, d := a.plan.Take(stateOf(record), a.now, a.n, lease)
	if !d.Allowed {
		a.markDenied(record, d.ResetAfter)
		return d
	}
	a.storeState(record, state, d.ResetAfter)
	return d
}

// recordWithRoom returns the record of a key, with its state converted to the plan and with room for one more step.
func (s *Store) recordWithRoom(sh *shard, a *access) ([]int64, error) {
	words := a.plan.firstWords
	if record := sh.records.lookup(a.hash); record != nil {
		record, err := s.convertRecord(sh, a, record)
		if err != nil {
			return nil, err
		}
		words = a.wordsAfter(record[recordWords])
	}
	return s.recordFor(sh, a, words)
}

// wordsAfter returns the largest size of a state after one more step, in words.
func (a *access) wordsAfter(words int64) int {
	return max(a.plan.firstWords, int(words)+a.plan.growth)
}

// storeState stores the state after a step, and the time until which the record must be kept. It clears recordDenied if
// the key had drained.
func (a *access) storeState(record []int64, state algorithm.State, resetAfter time.Duration) {
	if record[recordUntil] <= a.now+a.lag {
		record[recordDenied] = 0
	}
	record[recordWords] = int64(copy(record[recordState:], state))
	record[recordUntil] = a.liveUntil(record, resetAfter)
}

// liveUntil returns the store's time until which a record must be remembered.
func (a *access) liveUntil(record []int64, resetAfter time.Duration) int64 {
	us := resetAfter.Microseconds()
	if record[recordDenied] != 0 {
		us = deniedLife(us)
	}
	return a.now + a.lag + us
}

// moveToRecord moves the entry of a key, if it has one, to a record, because its limit or a debt does not fit a state
// word.
func (s *Store) moveToRecord(sh *shard, a *access) error {
	if sh.records.lookup(a.hash) != nil {
		return nil
	}
	e := s.entry(a.hash)
	if e == nil {
		return nil
	}
	record, err := s.recordWithRoom(sh, a)
	if err != nil {
		return err
	}
	word := e.hold()
	state := s.convertState(a, atomic.LoadUint64(&e.tag), word)
	atomic.StoreUint64(&e.tag, tombstone<<layoutBits)
	if word&deniedBit != 0 {
		record[recordDenied], record[recordUntil] = 1, math.MaxInt64
	}
	a.storeState(record, state, a.plan.Decide(state, a.now, 0).ResetAfter)
	return nil
}
