package memstore

import (
	"runtime"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// In most calls of TakeAll, all keys exist and all limits allow the request. Such a call needs no lock for entries:
//
//  1. It sets the claimed bit in all entries except the last, so that no other call changes, moves or drops them.
//  2. It takes from the last entry by a compare-and-swap. If that succeeds, the whole call is allowed.
//  3. It writes the new states of the claimed entries, which also ends the claims.
//
// A call with claims does not wait for others. If another call holds or claims one of its entries, or if swaps fail too
// often, it releases its claims and takes with locks instead. So it causes no deadlock when other calls wait for its
// claims.

// waitUnclaimed waits until an entry is not claimed, and returns its state. The shard is locked.
func (e *slot) waitUnclaimed() uint64 {
	for spins := 1; ; spins++ {
		if state := atomic.LoadUint64(&e.state); state&claimedBit == 0 {
			return state
		}
		pause(spins)
	}
}

// pause lets other goroutines run after some spins, so that the holder of an entry can finish.
func pause(spins int) {
	if spins > 8 {
		runtime.Gosched()
	}
}

// A claim is one check of a TakeAll without locks for entries.
type claim struct {
	operation
	slot   *slot // the entry of the key; nil if it has a record
	word   uint64
	pair   algorithm.Pair    // after the take
	next   uint64            // the state word of pair
	record *[minRecord]int64 // the record of the key
}

const (
	maxClaimState = minRecord - atState // words of the state in the smallest record
	// maxRecords is the maximum number of claims with records.
	maxRecords = 4
	// maxFailedSwaps is the number of consecutive failed swaps after which takeClaiming gives up.
	maxFailedSwaps = 8
	// maxReads is how often inspect reads a held entry again before anything is claimed.
	maxReads = 32
)

// takeClaiming takes the units of all claims if all their keys exist and their limits allow it. Otherwise it changes
// nothing and returns false. The caller has set the times of the claims; now is the store's time.
func (s *Store) takeClaiming(claims []claim, dst []headgate.Decision, now int64) bool {
	var locked shardSet
	hasRecords := false
	for i := range claims {
		switch c := &claims[i]; {
		case !c.feasible():
			return false
		case c.plan.compact:
		case c.plan.kind == algorithm.KindSlidingWindow || c.plan.IsPair():
			hasRecords = true
			locked.add(c.shard())
		default:
			return false
		}
	}
	if hasRecords {
		return s.takeClaimingRecords(claims, dst, &locked, now)
	}
	for i := range claims {
		s.prefetchSlot(claims[i].hash)
	}
	return s.inspectAll(claims) && s.claimAll(claims, dst)
}

// takeClaimingRecords is takeClaiming for claims of which some have records. It locks the shards of these records.
func (s *Store) takeClaimingRecords(claims []claim, dst []headgate.Decision, locked *shardSet, now int64) bool {
	s.lock(locked)
	defer s.unlock(locked)
	if !s.validAt(now) {
		return false
	}
	for i := range claims {
		if c := &claims[i]; c.plan.compact {
			s.prefetchSlot(c.hash)
		} else if !s.findRecord(c) {
			return false
		}
	}
	if !s.inspectAll(claims) {
		return false
	}
	// Other goroutines do not see changes of records until the shards are unlocked, so records can be restored.
	var before [maxRecords][minRecord]int64
	allowed, taken := true, 0
	for i := range claims {
		c := &claims[i]
		if c.record == nil {
			continue
		}
		if taken == maxRecords {
			allowed = false
			break
		}
		before[taken] = *c.record
		taken++
		if allowed = c.tryRecord(&dst[i]); !allowed {
			break
		}
	}
	if allowed && s.claimAll(claims, dst) {
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

// findRecord sets the record of a claim. It returns false if the claim needs locks: it has no record, a large one, or
// one of another limit.
func (s *Store) findRecord(c *claim) bool {
	record := s.shards[c.shard()].records.lookup(c.hash)
	if record == nil || record[atLength] > maxClaimState || !c.plan.Owns(stateOf(record)) {
		return false
	}
	c.record = (*[minRecord]int64)(record)
	return true
}

// tryRecord takes from the record of a claim if the limit allows it.
func (c *claim) tryRecord(d *headgate.Decision) bool {
	record := c.record[:]
	if state := c.plan.TakeInto(d, stateOf(record), c.now, c.units, 0); d.Allowed {
		c.storeState(record, state, d.ResetAfter)
	}
	return d.Allowed
}

// inspectAll calls inspect for every claim without a record, and reports whether all results are true.
func (s *Store) inspectAll(claims []claim) bool {
	for i := range claims {
		if c := &claims[i]; c.plan.compact && !s.inspect(c, maxReads) {
			return false
		}
	}
	return true
}

// inspect finds the entry of a claim and computes its next state without storing it. It returns false if the limit
// denies or if the entry needs a lock. It reads a held entry again up to rereads times.
func (s *Store) inspect(c *claim, rereads int) bool {
	e := s.entry(c.hash)
	if e == nil {
		return false
	}
	word := atomic.LoadUint64(&e.state)
	for ; word&heldBit != 0; rereads-- {
		if rereads == 0 {
			return false
		}
		word = atomic.LoadUint64(&e.state)
	}
	tag, tagWord := c.tag(), atomic.LoadUint64(&e.tag) // after the state, as in takeCompact
	if tagWord != tag<<layoutBits|c.plan.id || !s.validAt(c.now) {
		return false
	}
	var ok bool
	c.slot, c.word = e, word
	c.pair, ok = c.plan.TakePair(c.plan.unseal(tag, word, c.now), c.now, c.units)
	c.next = c.plan.seal(tag, c.pair) | c.plan.stillDenied(tag, word, c.now)
	return ok
}

// claimAll takes the units that inspect has allowed, from all entries or from none, and reports whether it took them.
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
		for failed := 0; !c.swap(i == last); {
			if failed++; failed == maxFailedSwaps || !s.inspect(c, 0) {
				releaseClaims(claims[:i])
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
			c.plan.Describe(&dst[i], c.pair, c.now, c.units)
		}
	}
	return true
}

// swap claims an entry. If last is true, it stores the next state instead. It returns false if the entry has changed
// since inspect.
func (c *claim) swap(last bool) bool {
	next := c.word | heldBit | claimedBit
	if last {
		next = c.next
	}
	return atomic.CompareAndSwapUint64(&c.slot.state, c.word, next)
}

// releaseClaims releases claimed entries unchanged.
func releaseClaims(claims []claim) {
	for i := range claims {
		if c := &claims[i]; c.slot != nil {
			atomic.StoreUint64(&c.slot.state, c.word)
		}
	}
}
