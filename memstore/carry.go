package memstore

import (
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// When the limit of a key has changed, the first take or charge under the new limit converts the key's state to the new
// limit, allowed or not: see algorithm.Plan.Carry. Peek returns the result without storing it. A refund uses the limit
// under which the state was written.

// shift returns how far the key's clock under the plan is ahead of the clock of a state.
func (a *access) shift(state algorithm.State) int64 { return state.Offset(a.key) - a.lag }

// convertPair converts the pair of an entry with the layout of another limit to the plan, whose states are pairs too.
// If the other limit is a brief one, its consumption is unknown and the result is empty.
func (s *Store) convertPair(a *access, tagWord, word uint64) algorithm.Pair {
	w, pair, shift := s.readEntry(a, tagWord, word)
	switch {
	case w == nil:
		return algorithm.Pair{}
	case w.plan.StateFormat() == a.plan.StateFormat():
		return pair
	}
	at, units := w.consumed(pair, a.now-shift)
	return algorithm.Pair{Time: at + shift, Units: units, Last: at + shift}
}

// convertState converts the state of an entry to the plan.
func (s *Store) convertState(a *access, tagWord, word uint64) algorithm.State {
	if a.plan.compact && tagWord&layoutMask == a.plan.id {
		return a.plan.StateOf(a.plan.clampLast(a.unseal(word), a.now), nil)
	}
	w, pair, shift := s.readEntry(a, tagWord, word)
	switch {
	case w == nil || pair.Units == 0:
		return nil
	case w.plan.StateFormat() == a.plan.StateFormat():
		return a.plan.StateOf(pair, nil)
	}
	at, units := w.consumed(pair, a.now-shift)
	return a.plan.NewState(at+shift, units)
}

// readEntry returns the pair of an entry, the layout and plan under which it was written, and how far the key's clock
// is ahead of the clock of that plan. For a brief limit the layout is nil.
func (s *Store) readEntry(a *access, tagWord, word uint64) (w *layoutPlan, pair algorithm.Pair, shift int64) {
	w = s.layouts.byID[tagWord&layoutMask].Load()
	if w == nil {
		return nil, pair, 0
	}
	shift = w.plan.Offset(a.key) - a.lag
	pair = w.unseal(a.tag(), word, a.now+a.lag)
	return w, w.clampLast(pair, a.now-shift), shift
}

// consumed is algorithm.Plan.ConsumedPair for a pair whose Last is rounded up to a grain (see layout). The units are
// those at the beginning of the grain, and they drain from its end.
func (w *layoutPlan) consumed(pair algorithm.Pair, now int64) (at, units int64) {
	last := pair.Last
	pair.Last = max(pair.Time, last-w.grainMask)
	if at, units = w.plan.ConsumedPair(pair, now); units > 0 {
		at = last
	}
	return at, units
}

// convertEntry converts the entry of a key to the layout of the plan. It returns nil if there is no entry, if nothing
// of the consumption is left, or if the result does not fit a word: then the key has a record. The shard is locked.
func (s *Store) convertEntry(sh *shard, a *access, e *slot) (*slot, error) {
	if e == nil {
		return nil, nil
	}
	tagWord := atomic.LoadUint64(&e.tag)
	if tagWord&layoutMask == a.plan.id {
		return e, nil
	}
	word := e.hold()
	pair := s.convertPair(a, tagWord, word)
	switch {
	case pair.Units == 0:
		s.dropEntry(a, e)
		return nil, nil
	case !a.plan.holds(pair):
		atomic.StoreUint64(&e.state, word)
		return nil, s.moveToRecord(sh, a)
	}
	atomic.StoreUint64(&e.tag, a.tagWord())
	atomic.StoreUint64(&e.state, word&deniedBit|a.seal(pair))
	return e, nil
}

// lockAndConvert locks the shard of the key and calls convertEntry.
func (s *Store) lockAndConvert(a *access) error {
	sh := s.lockFor(a)
	defer sh.mu.Unlock()
	_, err := s.convertEntry(sh, a, s.entry(a.hash))
	return err
}

// convertRecord converts the state in a record to the plan, if it was written under another limit. It returns the
// record, which may be a new, larger one.
func (s *Store) convertRecord(sh *shard, a *access, record []int64) ([]int64, error) {
	state := stateOf(record)
	if a.plan.Owns(state) {
		return record, nil
	}
	state = a.plan.Carry(state, a.shift(state), a.now)
	record, err := s.recordFor(sh, a, a.wordsAfter(int64(len(state))))
	if err != nil {
		return nil, err
	}
	a.storeState(record, state, a.plan.Decide(state, a.now, 0).ResetAfter)
	return record, nil
}

// peekLocked decides n units without taking them. The shard is locked.
func (s *Store) peekLocked(sh *shard, a *access, n int64) headgate.Decision {
	if record := sh.records.lookup(a.hash); record != nil {
		state := stateOf(record)
		return a.plan.Peek(a.plan.Carry(state, a.shift(state), a.now), a.now, n)
	}
	e := s.entry(a.hash)
	if e == nil {
		return a.plan.Peek(nil, a.now, n)
	}
	word, tagWord := e.waitUnclaimed(), atomic.LoadUint64(&e.tag)
	if a.plan.compact && tagWord == a.tagWord() {
		return a.plan.PeekPair(a.unseal(word), a.now, n)
	}
	return a.plan.Peek(s.convertState(a, tagWord, word), a.now, n)
}
