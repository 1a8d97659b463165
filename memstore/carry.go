package memstore

import (
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// When the limit of a key has changed, the first take or charge under the new limit carries its state over, allowed or
// not: see algorithm.Plan.Carry. A look returns the result without storing it, and a refund uses the limit of the
// state.

// shift returns how far the key's clock under the plan is ahead of the clock of a state.
func (a *ask) shift(state algorithm.State) int64 { return state.Offset(a.key) - a.behind }

// carried converts the pair of an entry with the layout of another limit into one of the plan, which has pairs too.
// Consumption under a brief limit is not known.
func (s *Store) carried(a *ask, tagWord, word uint64) algorithm.Pair {
	w, pair, shift := s.readEntry(a, tagWord, word)
	switch {
	case w == nil:
		return algorithm.Pair{}
	case w.plan.Shape() == a.plan.Shape():
		return pair
	}
	at, units := w.consumed(pair, a.now-shift)
	return algorithm.Pair{Time: at + shift, Units: units, Last: at + shift}
}

// carriedState converts the state of an entry into one of the plan.
func (s *Store) carriedState(a *ask, tagWord, word uint64) algorithm.State {
	if a.plan.compact && tagWord&layoutMask == a.plan.id {
		return a.plan.StateOf(a.plan.settled(a.unseal(word), a.now), nil)
	}
	w, pair, shift := s.readEntry(a, tagWord, word)
	switch {
	case w == nil || pair.Units == 0:
		return nil
	case w.plan.Shape() == a.plan.Shape():
		return a.plan.StateOf(pair, nil)
	}
	at, units := w.consumed(pair, a.now-shift)
	return a.plan.Place(at+shift, units)
}

// readEntry returns the pair of an entry, the layout and plan under which it was written, nil for a brief limit, and
// how far the key's clock is ahead of the clock of that plan.
func (s *Store) readEntry(a *ask, tagWord, word uint64) (w *layoutPlan, pair algorithm.Pair, shift int64) {
	w = s.layouts.places[tagWord&layoutMask].Load()
	if w == nil {
		return nil, pair, 0
	}
	shift = w.plan.Offset(a.key) - a.behind
	pair = w.unseal(a.tag(), word, a.now+a.behind)
	return w, w.settled(pair, a.now-shift), shift
}

// consumed is algorithm.Plan.ConsumedPair for a pair whose latest decision was up to a grain before Last: the level is
// that of the beginning of the grain, and drains from its end.
func (w *layoutPlan) consumed(pair algorithm.Pair, now int64) (at, units int64) {
	last := pair.Last
	pair.Last = max(pair.Time, last-w.grainMask)
	if at, units = w.plan.ConsumedPair(pair, now); units > 0 {
		at = last
	}
	return at, units
}

// adopt converts the entry of a key to the layout of the plan. It returns nil if there is no entry, if no consumption
// counts any more, or if it does not fit a word: then the key has a record now. The shard is locked.
func (s *Store) adopt(sh *shard, a *ask, e *slot) (*slot, error) {
	if e == nil {
		return nil, nil
	}
	tagWord := atomic.LoadUint64(&e.tag)
	if tagWord&layoutMask == a.plan.id {
		return e, nil
	}
	word := e.hold()
	pair := s.carried(a, tagWord, word)
	switch {
	case pair.Units == 0:
		s.forgetEntry(a, e)
		return nil, nil
	case !a.plan.holds(pair):
		atomic.StoreUint64(&e.state, word)
		return nil, s.widen(sh, a)
	}
	atomic.StoreUint64(&e.tag, a.tagWord())
	atomic.StoreUint64(&e.state, word&denied|a.seal(pair))
	return e, nil
}

// adoptAlone locks the shard and calls adopt.
func (s *Store) adoptAlone(a *ask) error {
	sh := s.lockFor(a)
	defer sh.mu.Unlock()
	_, err := s.adopt(sh, a, s.entry(a.hash))
	return err
}

// adoptRecord converts the state in a record to the plan, if it is of another limit. It returns the record, which may
// be a larger one.
func (s *Store) adoptRecord(sh *shard, a *ask, record []int64) ([]int64, error) {
	state := stateOf(record)
	if a.plan.Owns(state) {
		return record, nil
	}
	state = a.plan.Carry(state, a.shift(state), a.now)
	record, err := s.fit(sh, a, a.wordsAfter(int64(len(state))))
	if err != nil {
		return nil, err
	}
	a.settle(record, state, a.plan.Decide(state, a.now, 0).ResetAfter)
	return record, nil
}

// peek decides n units and changes nothing. The shard is locked.
func (s *Store) peek(sh *shard, a *ask, n int64) headgate.Decision {
	if record := sh.wide.lookup(a.hash); record != nil {
		state := stateOf(record)
		return a.plan.Peek(a.plan.Carry(state, a.shift(state), a.now), a.now, n)
	}
	e := s.entry(a.hash)
	if e == nil {
		return a.plan.Peek(nil, a.now, n)
	}
	word, tagWord := e.unclaimed(), atomic.LoadUint64(&e.tag)
	if a.plan.compact && tagWord == a.tagWord() {
		return a.plan.PeekPair(a.unseal(word), a.now, n)
	}
	return a.plan.Peek(s.carriedState(a, tagWord, word), a.now, n)
}
