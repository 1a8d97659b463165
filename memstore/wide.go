package memstore

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// spare is by how many words a step lets a state grow at the most.
const spare = 3

func (s *Store) takeWide(p *plan, hash uint64, now, n int64) (headgate.Decision, error) {
	sh := &s.shards[hash>>(64-shardBits)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err := s.widen(p, sh, hash, now); err != nil {
		return headgate.Decision{}, err
	}
	return s.stepWide(p, sh, hash, now, n)
}

// stepWide takes from the record of a key. The shard is locked.
func (s *Store) stepWide(p *plan, sh *shard, hash uint64, now, n int64) (headgate.Decision, error) {
	d := s.decideWide(p, sh, hash, now, n)
	if !d.Allowed || n == 0 {
		return d, nil
	}
	if _, err := s.roomWide(p, sh, hash, now); err != nil {
		return headgate.Decision{}, err
	}
	s.commitWide(p, sh, hash, now, n, &d)
	return d, nil
}

// decideWide decides on a record, and notes a denial in it.
func (s *Store) decideWide(p *plan, sh *shard, hash uint64, now, n int64) headgate.Decision {
	record := sh.wide.lookup(hash)
	if record == nil {
		return p.Decide(nil, now, n)
	}
	d := p.Decide(stateOf(record), now, n)
	if !d.Allowed {
		record[recordDenied] = 1
	}
	return d
}

// commitWide takes what decideWide has allowed, from a record that has room for it.
func (s *Store) commitWide(p *plan, sh *shard, hash uint64, now, n int64, d *headgate.Decision) {
	record := sh.wide.lookup(hash)
	state, taken := p.Take(stateOf(record), now, n, newLease())
	s.settle(p, record, state, now, taken.ResetAfter)
	record[recordDenied] = 0
	*d = taken
}

// wordsFor returns how long the state of a key may be after one more step.
func wordsFor(p *plan, sh *shard, hash uint64) int {
	words := p.Words()
	if record := sh.wide.lookup(hash); record != nil {
		words = max(words, int(record[recordWords])+spare)
	}
	return words
}

// roomWide returns the record of a key with room for one step.
func (s *Store) roomWide(p *plan, sh *shard, hash uint64, now int64) ([]int64, error) {
	record, err := s.fit(&sh.wide, hash, wordsFor(p, sh, hash), now)
	if err != nil {
		s.refusals.Add(1)
	}
	return record, err
}

// settle stores the state that a step returned and notes how long it is worth remembering. An offset clock is at most a
// period behind.
func (s *Store) settle(p *plan, record []int64, state algorithm.State, now int64, resetAfter time.Duration) {
	room := record[recordState:]
	record[recordWords] = int64(copy(room, state))
	record[recordUntil] = now + resetAfter.Microseconds()
	if p.limit.Staggered {
		record[recordUntil] += p.limit.Period.Microseconds()
	}
}

// widen moves the entry of a key to a record, if it has one: a limit has become too large for a state word.
func (s *Store) widen(p *plan, sh *shard, hash uint64, now int64) error {
	if !p.IsPair() || sh.wide.lookup(hash) != nil {
		return nil
	}
	e := s.entry(hash)
	if e == nil {
		return nil
	}
	record, err := s.roomWide(p, sh, hash, now)
	if err != nil {
		return err
	}
	pair := unpack(e.hold()&^(held|denied), now)
	atomic.StoreUint64(&e.tag, gone<<lifeBits)
	state := append(stateOf(record), pair.Time, pair.Units)
	s.settle(p, record, state, now, p.DecidePair(pair, now, 0).ResetAfter)
	return nil
}
