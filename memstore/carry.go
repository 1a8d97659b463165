package memstore

import (
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// When the limit of a key has changed, its state is carried over by the first take or charge under the new one, allowed or
// not: see algorithm.Plan.Carry. A look sees what would come of that, and a refund goes by the limit that the state has.

// shift returns by how much the key's clock under the plan is ahead of the one that a state was written by.
func (a *ask) shift(state algorithm.State) int64 { return state.Offset(a.key) - a.behind }

// carried returns the pair of an entry that has the layout of another limit as one of the plan, which has pairs as well. What
// was consumed under a brief limit is not known.
func (s *Store) carried(a *ask, tagWord, word uint64) algorithm.Pair {
	w, pair, shift := s.written(a, tagWord, word)
	switch {
	case w == nil:
		return algorithm.Pair{}
	case w.plan.Shape() == a.plan.Shape():
		return pair
	}
	at, units := w.consumed(pair, a.now-shift)
	return algorithm.Pair{Time: at + shift, Units: units, Last: at + shift}
}

// carriedState returns the state of an entry, as one of the plan.
func (s *Store) carriedState(a *ask, tagWord, word uint64) algorithm.State {
	if a.plan.compact && tagWord&layoutMask == a.plan.id {
		return a.plan.StateOf(a.plan.settled(a.unseal(word), a.now), nil)
	}
	w, pair, shift := s.written(a, tagWord, word)
	switch {
	case w == nil || pair.Units == 0:
		return nil
	case w.plan.Shape() == a.plan.Shape():
		return a.plan.StateOf(pair, nil)
	}
	at, units := w.consumed(pair, a.now-shift)
	return a.plan.Place(at+shift, units)
}

// written returns the pair of an entry, the layout and plan under which it was written, nil for a brief limit, and by how
// much the key's clock is ahead of the one that it was written by.
func (s *Store) written(a *ask, tagWord, word uint64) (w *written, pair algorithm.Pair, shift int64) {
	w = s.layouts.places[tagWord&layoutMask].Load()
	if w == nil {
		return nil, pair, 0
	}
	shift = w.plan.Offset(a.key) - a.behind
	pair = w.unseal(a.tag(), word, a.now+a.behind)
	return w, w.settled(pair, a.now-shift), shift
}

// consumed is algorithm.Plan.ConsumedPair for a pair whose latest decision was up to a grain before Last: what counted is
// counted at the beginning of the grain, and counts from its end.
func (w *written) consumed(pair algorithm.Pair, now int64) (at, units int64) {
	last := pair.Last
	pair.Last = max(pair.Time, last-w.grainMask)
	if at, units = w.plan.ConsumedPair(pair, now); units > 0 {
		at = last
	}
	return at, units
}

// adopt returns the entry of a key with the layout of the plan. It is nil if there is none, if nothing was consumed that still
// counts, or if a word cannot hold what was: then the key has a record now. The shard is locked.
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

// adoptAlone is adopt for an ask that has no lock.
func (s *Store) adoptAlone(a *ask) error {
	sh := s.lockFor(a)
	defer sh.mu.Unlock()
	_, err := s.adopt(sh, a, s.entry(a.hash))
	return err
}

// adoptRecord carries the state in a record over to the plan, if it is one of another limit. It returns the record, which may
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
		return a.plan.Decide(a.plan.Carry(state, a.shift(state), a.now), a.now, n)
	}
	e := s.entry(a.hash)
	if e == nil {
		return a.plan.Decide(nil, a.now, n)
	}
	word, tagWord := e.unclaimed(), atomic.LoadUint64(&e.tag)
	if a.plan.compact && tagWord == a.tagWord() {
		return a.plan.DecidePair(a.unseal(word), a.now, n)
	}
	return a.plan.Decide(s.carriedState(a, tagWord, word), a.now, n)
}
