package memstore

import (
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Most calls of TakeAll find all of their keys, and all of them allow. Such a call needs no lock for entries. It claims all but
// the last of them: it swaps the state for one that says so, and then nobody else decides on the entry, moves it or drops it.
// It takes from the last with one swap more, by which all is taken, and writes the states of those that it has claimed.
//
// Whoever claims waits for nobody: if an entry is held or claimed by others, or a swap is lost too often, it puts back what it
// has claimed and goes the long way, with locks. So everybody may wait for a claim, and no claim is ever waited for in turn.

// unclaimed returns the state of an entry, once nobody claims it. It is for holders of the shard's lock.
func (e *slot) unclaimed() uint64 {
	for spins := 1; ; spins++ {
		if state := atomic.LoadUint64(&e.state); state&claimed == 0 {
			return state
		}
		pause(spins)
	}
}

// A claim is one check of a TakeAll on its short way.
type claim struct {
	ask
	slot   *slot // the entry of the key; nil if it has a record
	word   uint64
	pair   algorithm.Pair    // after the taking
	next   uint64            // the state word of that pair
	record *[minRecord]int64 // the record of the key
}

const (
	shortState = minRecord - recordState // words
	// mostRecords is how many claims may have records.
	mostRecords = 4
	// mostLost is how many swaps in a row one may lose.
	mostLost = 8
	// mostSeen is how often one looks whether an entry that somebody holds is free again, before anything is claimed.
	mostSeen = 32
)

// takeShort takes for all claims if all of their keys are there and allow it. If not it is false, and nothing has been taken,
// or noted. The claims have their times; now is the store's.
func (s *Store) takeShort(claims []claim, dst []headgate.Decision, now int64) bool {
	var locked shardSet
	wide := false
	for i := range claims {
		switch c := &claims[i]; {
		case !c.takes():
			return false
		case c.plan.compact:
		case c.plan.kind == algorithm.KindWindows || c.plan.IsPair():
			wide = true
			locked.add(c.shard())
		default:
			return false
		}
	}
	if wide {
		return s.takeShortWide(claims, dst, &locked, now)
	}
	for i := range claims {
		s.fetch(claims[i].hash)
	}
	return s.seeAll(claims) && s.claimAll(claims, dst)
}

// takeShortWide is takeShort for claims of which some have records: it needs the locks of these.
func (s *Store) takeShortWide(claims []claim, dst []headgate.Decision, locked *shardSet, now int64) bool {
	s.lock(locked)
	defer s.unlock(locked)
	if !s.valid(now) {
		return false
	}
	for i := range claims {
		if c := &claims[i]; c.plan.compact {
			s.fetch(c.hash)
		} else if !s.find(c) {
			return false
		}
	}
	if !s.seeAll(claims) {
		return false
	}
	// What is taken from records nobody sees before they are unlocked.
	var before [mostRecords][minRecord]int64
	took, taken := true, 0
	for i := range claims {
		c := &claims[i]
		if c.record == nil {
			continue
		}
		if taken == mostRecords {
			took = false
			break
		}
		before[taken] = *c.record
		taken++
		if took = c.takeRecord(&dst[i]); !took {
			break
		}
	}
	if took && s.claimAll(claims, dst) {
		return true
	}
	restored := 0
	for i := range claims {
		if c := &claims[i]; c.record != nil && restored < taken {
			*c.record = before[restored]
			restored++
		}
	}
	return false
}

// find finds the record of a claim.
func (s *Store) find(c *claim) bool {
	record := s.shards[c.shard()].wide.lookup(c.hash)
	if record == nil || record[recordWords] > shortState || !c.plan.Owns(stateOf(record)) {
		return false
	}
	c.record = (*[minRecord]int64)(record)
	return true
}

// takeRecord takes from the record of a claim, if that allows it.
func (c *claim) takeRecord(d *headgate.Decision) bool {
	record := c.record[:]
	var state algorithm.State
	if state, *d = c.plan.Take(stateOf(record), c.now, c.n, 0); d.Allowed {
		c.settle(record, state, d.ResetAfter)
	}
	return d.Allowed
}

// seeAll sees the entries of all claims that have some.
func (s *Store) seeAll(claims []claim) bool {
	for i := range claims {
		if c := &claims[i]; c.plan.compact && !s.see(c, mostSeen) {
			return false
		}
	}
	return true
}

// see finds the entry of a claim and decides by what it says, without a change. It is false if there is more to it than that.
func (s *Store) see(c *claim, times int) bool {
	e := s.entry(c.hash)
	if e == nil {
		return false
	}
	word := atomic.LoadUint64(&e.state)
	for ; word&held != 0; times-- {
		if times == 0 {
			return false
		}
		word = atomic.LoadUint64(&e.state)
	}
	tag, tagWord := c.tag(), atomic.LoadUint64(&e.tag) // after the state, as in takeCompact
	if tagWord != c.tagWord() || !s.valid(c.now) {
		return false
	}
	var ok bool
	c.slot, c.word = e, word
	c.pair, ok = c.plan.TakePair(c.plan.unseal(tag, word, c.now), c.now, c.n)
	c.next = c.plan.seal(tag, c.pair) | c.plan.stillDenied(tag, word, c.now)
	return ok
}

// claimAll takes what see has decided, from all entries or from none, and says what came of it.
func (s *Store) claimAll(claims []claim, dst []headgate.Decision) bool {
	last := len(claims) - 1
	for last >= 0 && claims[last].slot == nil {
		last--
	}
	for i := range claims[:last+1] {
		c := &claims[i]
		if c.slot == nil {
			continue
		}
		for lost := 0; !c.swap(i == last); {
			if lost++; lost == mostLost || !s.see(c, 0) {
				putBack(claims[:i])
				return false
			}
		}
	}
	for i := range claims[:max(last, 0)] {
		if c := &claims[i]; c.slot != nil {
			atomic.StoreUint64(&c.slot.state, c.next)
		}
	}
	for i := range claims {
		if c := &claims[i]; c.slot != nil {
			c.plan.Describe(&dst[i], c.pair, c.now, c.n)
		}
	}
	return true
}

// swap claims the entry or, if it is the last, takes from it. It is false if somebody has changed it since it was seen.
func (c *claim) swap(last bool) bool {
	next := c.word | held | claimed
	if last {
		next = c.next
	}
	return atomic.CompareAndSwapUint64(&c.slot.state, c.word, next)
}

// putBack lets go of entries that were claimed, as if nothing had been.
func putBack(claims []claim) {
	for i := range claims {
		if c := &claims[i]; c.slot != nil {
			atomic.StoreUint64(&c.slot.state, c.word)
		}
	}
}
