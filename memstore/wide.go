package memstore

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

func (s *Store) takeWide(a *ask) (headgate.Decision, error) {
	sh := s.lockFor(a)
	defer sh.mu.Unlock()
	if err := s.widen(sh, a); err != nil {
		return headgate.Decision{}, err
	}
	return s.stepWide(sh, a)
}

// stepWide takes from the record of a key. The shard is locked.
func (s *Store) stepWide(sh *shard, a *ask) (headgate.Decision, error) {
	words := a.plan.Words()
	if record := sh.wide.lookup(a.hash); record != nil {
		record, err := s.adoptRecord(sh, a, record)
		if err != nil {
			return headgate.Decision{}, err
		}
		if d := a.decideRecord(record, a.n); !d.Allowed {
			return d, nil
		}
		words = a.wordsAfter(record[recordWords])
	}
	record, err := s.fit(sh, a, words)
	if err != nil {
		return headgate.Decision{}, err
	}
	return a.commitRecord(record), nil
}

// decideWide decides n units on a record, and records a denial in it.
func (s *Store) decideWide(sh *shard, a *ask, n int64) headgate.Decision {
	record := sh.wide.lookup(a.hash)
	if record == nil {
		return a.plan.Decide(nil, a.now, n)
	}
	return a.decideRecord(record, n)
}

func (a *ask) decideRecord(record []int64, n int64) headgate.Decision {
	d := a.plan.Decide(stateOf(record), a.now, n)
	if !d.Allowed {
		// Consumption under a limit that was lowered since lives as long as under this one.
		record[recordDenied] = 1
		record[recordUntil] = max(record[recordUntil], a.until(record, d.ResetAfter))
	}
	return d
}

// commitRecord takes what decideWide has allowed, from a record that has room for it.
func (a *ask) commitRecord(record []int64) headgate.Decision {
	state, d := a.plan.Take(stateOf(record), a.now, a.n, newLease())
	a.settle(record, state, d.ResetAfter)
	return d
}

// roomWide returns the record of a key, of a state of the plan, with room for one more step.
func (s *Store) roomWide(sh *shard, a *ask) ([]int64, error) {
	words := a.plan.Words()
	if record := sh.wide.lookup(a.hash); record != nil {
		record, err := s.adoptRecord(sh, a, record)
		if err != nil {
			return nil, err
		}
		words = a.wordsAfter(record[recordWords])
	}
	return s.fit(sh, a, words)
}

// wordsAfter returns the largest size of a state after one more step, in words.
func (a *ask) wordsAfter(words int64) int {
	return max(a.plan.Words(), int(words)+a.plan.Growth())
}

// settle stores the state after a step, and until when it is worth remembering. It clears the denial of a key that had
// drained.
func (a *ask) settle(record []int64, state algorithm.State, resetAfter time.Duration) {
	if record[recordUntil] <= a.now+a.behind {
		record[recordDenied] = 0
	}
	record[recordWords] = int64(copy(record[recordState:], state))
	record[recordUntil] = a.until(record, resetAfter)
}

// until returns the store's time until which the state in a record is remembered.
func (a *ask) until(record []int64, resetAfter time.Duration) int64 {
	us := resetAfter.Microseconds()
	if record[recordDenied] != 0 {
		us = deniedLife(us)
	}
	return a.now + a.behind + us
}

// widen moves the entry of a key, if it has one, to a record: for another limit, or for a debt that does not fit a
// state word.
func (s *Store) widen(sh *shard, a *ask) error {
	if sh.wide.lookup(a.hash) != nil {
		return nil
	}
	e := s.entry(a.hash)
	if e == nil {
		return nil
	}
	record, err := s.roomWide(sh, a)
	if err != nil {
		return err
	}
	word := e.hold()
	state := s.carriedState(a, atomic.LoadUint64(&e.tag), word)
	atomic.StoreUint64(&e.tag, gone<<layoutBits)
	if word&denied != 0 {
		record[recordDenied], record[recordUntil] = 1, math.MaxInt64
	}
	a.settle(record, state, a.plan.Decide(state, a.now, 0).ResetAfter)
	return nil
}
