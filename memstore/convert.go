package memstore

import (
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// The first take or charge after a change of a key's limit converts the key's state to the new limit, even if it is
// denied: see algorithm.Plan.Convert. Peek decides by the converted state, but does not store it. A refund uses the
// limit under which the state was written, and does not convert the state.

// shift returns how far the key's clock under the plan is ahead of the clock under which a state was written. The two
// differ if one of the limits is staggered.
func (op *operation) shift(state algorithm.State) int64 { return state.Offset(op.key) - op.lag }

// convertPair converts the pair of an entry, which another limit wrote, to the plan, whose states are pairs too. If
// that limit is brief (see layouts), the consumption is unknown and the result is empty.
func (s *Store) convertPair(op *operation, tagWord, word uint64) algorithm.Pair {
	from, pair, shift := s.readEntry(op, tagWord, word)
	if from == nil {
		return algorithm.Pair{}
	}
	return op.plan.ConvertPair(&from.plan, pair, shift, op.now)
}

// convertState converts the state of an entry to the plan.
func (s *Store) convertState(op *operation, tagWord, word uint64) algorithm.State {
	if op.plan.compact && tagWord&layoutMask == op.plan.id {
		return op.plan.StateOf(op.plan.clampLast(op.unseal(word), op.now), nil)
	}
	from, pair, shift := s.readEntry(op, tagWord, word)
	if from == nil || pair.Units == 0 {
		return nil
	}
	return op.plan.Convert(from.plan.StateOf(pair, nil), shift, op.now)
}

// readEntry returns the pair of an entry, the layout and plan under which it was written, and how far the key's clock
// is ahead of its clock under that plan. If a brief limit wrote the entry (see layouts), from is nil.
func (s *Store) readEntry(op *operation, tagWord, word uint64) (from *layoutPlan, pair algorithm.Pair, shift int64) {
	from = s.layouts.byID[tagWord&layoutMask].Load()
	if from == nil {
		return nil, pair, 0
	}
	shift = from.plan.Offset(op.key) - op.lag
	return from, from.clampLast(from.unseal(op.tag(), word, op.storeTime()), op.now-shift), shift
}

// convertEntry converts the entry of a key to the layout of the plan. It returns nil if there is no entry, and if it
// dropped the entry because no consumption is left. If the result does not fit a state word, it moves the key to a
// record and returns nil. The shard is locked.
func (s *Store) convertEntry(sh *shard, op *operation, e *slot) (*slot, error) {
	if e == nil {
		return nil, nil
	}
	tagWord := atomic.LoadUint64(&e.tag)
	if tagWord&layoutMask == op.plan.id {
		return e, nil
	}
	word := e.hold()
	pair := s.convertPair(op, tagWord, word)
	switch {
	case pair.Units == 0:
		s.dropEntry(op, e)
		return nil, nil
	case !op.plan.holds(pair):
		atomic.StoreUint64(&e.state, word)
		return nil, s.moveToRecord(sh, op)
	}
	atomic.StoreUint64(&e.tag, op.tagWord())
	atomic.StoreUint64(&e.state, word&deniedBit|op.seal(pair))
	return e, nil
}

// lockAndConvert locks the shard of the key and calls convertEntry.
func (s *Store) lockAndConvert(op *operation) error {
	sh := s.lockFor(op)
	defer sh.mu.Unlock()
	_, err := s.convertEntry(sh, op, s.entry(op.hash))
	return err
}

// convertRecord converts the state in a record to the plan, if it was written under another limit. It returns the
// record, which may be a new, larger one.
func (s *Store) convertRecord(sh *shard, op *operation, record []int64) ([]int64, error) {
	state := stateOf(record)
	if op.plan.Owns(state) {
		return record, nil
	}
	state = op.plan.Convert(state, op.shift(state), op.now)
	record, err := s.recordFor(sh, op, op.wordsAfter(int64(len(state))))
	if err != nil {
		return nil, err
	}
	op.storeState(record, state, op.plan.Decide(state, op.now, 0).ResetAfter)
	return record, nil
}

// peekLocked decides n units without taking them. The shard is locked.
func (s *Store) peekLocked(sh *shard, op *operation, n int64) headgate.Decision {
	if record := sh.records.lookup(op.hash); record != nil {
		state := stateOf(record)
		return op.plan.Peek(op.plan.Convert(state, op.shift(state), op.now), op.now, n)
	}
	e := s.entry(op.hash)
	if e == nil {
		return op.plan.Peek(nil, op.now, n)
	}
	word, tagWord := e.waitUnclaimed(), atomic.LoadUint64(&e.tag)
	if op.plan.compact && tagWord == op.tagWord() {
		return op.plan.PeekPair(op.unseal(word), op.now, n)
	}
	return op.plan.Peek(s.convertState(op, tagWord, word), op.now, n)
}
