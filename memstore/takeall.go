package memstore

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// TakeAll takes the units of all checks or of none. See [headgate.Limiter].
//
// Usually it needs no locks: see claim.go. Otherwise it locks the shards of all keys, in order of their numbers, so
// that two calls do not wait for each other. It also sets the held bit of the entries, because other goroutines take
// from entries without a lock.
func (s *Store) TakeAll(
	ctx context.Context, checks []headgate.Check, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := s.checkOpen(ctx); err != nil {
		return dst, err
	}
	// Most calls have few checks, and clearing an array for many takes as long as a decision.
	switch n := len(checks); {
	case n == 0:
		return dst, nil
	case n == 1:
		return s.takeOne(&checks[0], dst)
	case n == 2:
		var array [2]claim
		return s.takeMany(checks, array[:], dst)
	case n <= 4:
		var array [4]claim
		return s.takeMany(checks, array[:n], dst)
	case n <= 16:
		var array [16]claim
		return s.takeMany(checks, array[:n], dst)
	case n <= headgate.MaxChecks:
		return s.takeMany(checks, make([]claim, n), dst)
	default:
		return dst, headgate.ValidateCombination(checks) // it refuses more than MaxChecks
	}
}

// takeOne is TakeAll for one check.
func (s *Store) takeOne(c *headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	p, err := s.planOf(c)
	if err != nil {
		return dst, err
	}
	last := len(dst)
	dst = append(dst, headgate.Decision{})
	err = s.take(p, c.Key, c.Cost, &dst[last])
	p.putBack()
	if err != nil {
		return dst[:last], err
	}
	return dst, nil
}

// takeMany is TakeAll for several checks. claims has a zero claim for each check.
func (s *Store) takeMany(
	checks []headgate.Check, claims []claim, dst []headgate.Decision,
) ([]headgate.Decision, error) {
	if err := s.prepareAll(checks, claims); err != nil {
		return dst, err
	}
	now := s.now() // after hashing the keys and before reading the table; see newOperation
	for i := range claims {
		claims[i].setTime(now)
	}
	from, err := len(dst), error(nil)
	dst = slices.Grow(dst, len(claims))[:from+len(claims)]
	if !s.takeClaiming(claims, dst[from:], now) {
		dst, err = s.takeWithLocks(claims, dst[:from], now)
	}
	for i := range claims {
		claims[i].plan.putBack()
	}
	return dst, err
}

// prepareAll fills in the plans and hashes of checks. It fails if a check or their combination is invalid.
func (s *Store) prepareAll(checks []headgate.Check, claims []claim) error {
	for i := range checks {
		c, cl := &checks[i], &claims[i]
		plan, err := s.planOf(c)
		if err != nil {
			return cmp.Or(headgate.ValidateCombination(checks), err) // an invalid combination is reported first
		}
		cl.plan, cl.key, cl.hash, cl.units = plan, c.Key, s.hash(plan, c.Key), c.Cost
		for j := range i {
			// Equal keys have equal hashes, unless they are for different kinds of state.
			if k := &claims[j]; k.hash == cl.hash || k.plan.kind != plan.kind && checks[j].Key == c.Key {
				if err := headgate.ValidateCombination(checks); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// takeWithLocks takes all checks or none, with locks. now is the store's time.
func (s *Store) takeWithLocks(claims []claim, dst []headgate.Decision, now int64) ([]headgate.Decision, error) {
	switch n := len(claims); {
	case n == 2:
		var array [2]lockedCheck
		return s.takeLocked(claims, array[:], dst, now)
	case n <= 4:
		var array [4]lockedCheck
		return s.takeLocked(claims, array[:n], dst, now)
	case n <= 16:
		var array [16]lockedCheck
		return s.takeLocked(claims, array[:n], dst, now)
	default:
		return s.takeLocked(claims, make([]lockedCheck, n), dst, now)
	}
}

// takeLocked is takeWithLocks with memory for the checks.
func (s *Store) takeLocked(
	claims []claim, checks []lockedCheck, dst []headgate.Decision, now int64,
) ([]headgate.Decision, error) {
	var locked shardSet
	for i := range claims {
		checks[i].operation = claims[i].operation
		locked.add(checks[i].shard())
	}
	for s.lock(&locked); !s.validAt(now); s.lock(&locked) { // until entries are readable at now
		s.unlock(&locked)
		now = s.now()
		for i := range checks {
			checks[i].setTime(now)
		}
	}
	defer s.unlock(&locked)
	s.prefetch(checks)
	for i := range checks {
		if checks[i].feasible() {
			return s.takeAllLocked(checks, dst)
		}
	}
	return s.peekAllLocked(checks, dst), nil
}

// peekAllLocked decides checks whose costs are all above the capacity, so that none can be taken. It holds the entries,
// so that it sees the effect of another TakeAll on all of them or on none.
func (s *Store) peekAllLocked(checks []lockedCheck, dst []headgate.Decision) []headgate.Decision {
	for i := range checks {
		if c := &checks[i]; c.plan.kind != algorithm.KindLeases {
			if c.slot = s.entry(c.hash); c.slot != nil {
				c.word = c.slot.hold() &^ heldBit
			}
		}
	}
	before, allowed := len(dst), true
	for i := range checks {
		c := &checks[i]
		d := s.peekLocked(&s.shards[c.shard()], &c.operation, c.units)
		allowed = allowed && d.Allowed
		dst = append(dst, d)
	}
	for i := range checks {
		c := &checks[i]
		if !allowed && dst[before+i].Allowed {
			dst[before+i] = s.peekLocked(&s.shards[c.shard()], &c.operation, 0) // without the cost, which is not taken
		}
		if c.slot != nil {
			atomic.StoreUint64(&c.slot.state, c.word)
		}
	}
	return dst
}

// A shardSet is a set of shard numbers, in order.
type shardSet [1 << shardBits / 64]uint64

func (set *shardSet) add(shard uint8) { set[shard/64] |= 1 << (shard % 64) }

func (s *Store) lock(set *shardSet) {
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			s.shards[i*64+bits.TrailingZeros64(word)].mu.Lock()
		}
	}
}

func (s *Store) unlock(set *shardSet) {
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			s.shards[i*64+bits.TrailingZeros64(word)].mu.Unlock()
		}
	}
}

// prefetch reads the memory that the checks need, so that the CPU fetches it for all in parallel. Later reads are
// not parallel, because the CPU does not read ahead of a lock or a compare-and-swap.
func (s *Store) prefetch(checks []lockedCheck) {
	for i := range checks {
		if checks[i].plan.compact {
			s.prefetchSlot(checks[i].hash)
		}
	}
	for i := range checks {
		if c := &checks[i]; !c.plan.compact {
			c.findRecord(&s.shards[c.shard()])
		}
	}
}

// prefetchSlot reads the two cache lines that most likely have the entry of a key.
func (s *Store) prefetchSlot(hash uint64) {
	if d := s.dirs[hash>>(64-shardBits)].Load(); d != nil {
		tag := tagOf(hash)
		base, slot := d.bases[(tag>>d.shift)&uint64(len(d.bases)-1)].Load(), tag&d.mask
		atomic.LoadUint64(&slotAt(base, slot).tag)
		atomic.LoadUint64(&slotAt(base, (slot+lineSlots)&d.mask).tag) // the entry is often a few slots further
	}
}

// takeAllLocked takes all checks or none. Their shards are locked. It reserves room for all checks, then decides all,
// and then either commits all or undoes all.
func (s *Store) takeAllLocked(checks []lockedCheck, dst []headgate.Decision) ([]headgate.Decision, error) {
	moved := false
	for i := range checks {
		moves, err := s.reserve(&checks[i], moved)
		if err != nil {
			for j := range i {
				checks[j].record = nil // the record may have moved
				s.holdEntry(&checks[j])
				s.undo(&checks[j], true)
			}
			return dst, err
		}
		moved = moved || moves
	}
	before, allowed := len(dst), true
	dst = slices.Grow(dst, len(checks))[:before+len(checks)]
	for i := range checks {
		c, d := &checks[i], &dst[before+i]
		if moved || c.slot == nil && c.record == nil {
			c.record = nil
			s.holdEntry(c)
		}
		s.tryTake(c, d)
		allowed = allowed && d.Allowed
	}
	for i := range checks {
		c, d := &checks[i], &dst[before+i]
		if allowed {
			s.commit(c, d)
			continue
		}
		s.undo(c, d.Allowed)
		if d.Allowed {
			*d = s.decideLocked(c, 0) // without the cost, which is not taken
		}
	}
	for i := range checks { // without memory for a record, the denial is not recorded
		if c := &checks[i]; c.needsRecord && s.moveToRecord(&s.shards[c.shard()], &c.operation) == nil {
			c.takeInPlace(s.shards[c.shard()].records.lookup(c.hash), &headgate.Decision{})
		}
	}
	return dst, nil
}
