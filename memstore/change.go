package memstore

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Charge takes the cost even if it exceeds the limit. See [headgate.Limiter].
func (s *Store) Charge(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	p, err := s.prepare(ctx, &c)
	if err != nil {
		return headgate.Decision{}, err
	}
	if err := headgate.ValidateUnits(c.Cost); err != nil {
		return headgate.Decision{}, err
	}
	if p.kind == algorithm.KindLeases {
		return headgate.Decision{}, headgate.ErrUnsupported
	}
	a := s.newAccess(p, c.Key, c.Cost)
	sh := s.lockFor(&a)
	defer sh.mu.Unlock()
	if p.compact && sh.records.lookup(a.hash) == nil {
		d, fits, err := s.chargeCompact(sh, &a)
		if fits || err != nil {
			return d, err
		}
	}
	if err := s.moveToRecord(sh, &a); err != nil {
		return headgate.Decision{}, err
	}
	record, err := s.recordWithRoom(sh, &a)
	if err != nil {
		return headgate.Decision{}, err
	}
	state, d, err := p.Charge(stateOf(record), a.now, a.n)
	if err != nil {
		return headgate.Decision{}, err
	}
	a.storeState(record, state, d.ResetAfter)
	return d, nil
}

// chargeCompact charges the entry of a key, or a new one. It returns false and charges nothing if the result does not
// fit a word, or if the key has a record now.
func (s *Store) chargeCompact(sh *shard, a *access) (d headgate.Decision, fits bool, err error) {
	e, err := s.convertEntry(sh, a, s.entry(a.hash))
	if err != nil || sh.records.lookup(a.hash) != nil {
		return d, false, err
	}
	if e == nil {
		pair, d := a.plan.ChargePair(algorithm.Pair{}, a.now, a.n)
		if !a.plan.holds(pair) {
			return d, false, nil
		}
		g, err := s.segmentWithRoom(a)
		if err != nil {
			s.refusals.Add(1)
			return headgate.Decision{}, false, err
		}
		pair, d = a.plan.ChargePair(algorithm.Pair{}, a.now, a.n) // segmentWithRoom may have changed the time
		g.add(a.tagWord(), a.seal(pair))
		return d, true, nil
	}
	fits = s.updatePair(a, e, func(pair algorithm.Pair) (algorithm.Pair, bool) {
		pair, d = a.plan.ChargePair(pair, a.now, a.n)
		return pair, a.plan.holds(pair)
	})
	return d, fits, nil
}

// lockFor locks the shard of a key. If entries are not readable at the time of the access, it updates that time first.
func (s *Store) lockFor(a *access) *shard {
	sh := &s.shards[a.shard()]
	for {
		sh.mu.Lock()
		if s.validAt(a.now + a.lag) {
			return sh
		}
		sh.mu.Unlock()
		a.setTime(s.now())
	}
}

// updatePair replaces the pair in the entry of a key by the result of update, unless update returns false. The
// entry has the plan's layout. A key without units is dropped. The shard is locked, so the entry stays in its slot.
func (s *Store) updatePair(a *access, e *slot, update func(algorithm.Pair) (algorithm.Pair, bool)) bool {
	for {
		word := e.waitUnclaimed()
		pair, ok := update(a.unseal(word))
		if !ok {
			return false
		}
		if s.swapPair(a, e, word, pair, &a.plan.layout) {
			return true
		}
	}
}

// swapPair replaces the word of an entry by the word of a pair of the same layout, and drops an entry without units. It
// returns false if the word has changed since it was read.
func (s *Store) swapPair(a *access, e *slot, word uint64, pair algorithm.Pair, l *layout) bool {
	next := l.seal(a.tag(), pair) | l.stillDenied(a.tag(), word, a.now+a.lag)
	if pair.Units == 0 {
		next = heldBit
	}
	if !atomic.CompareAndSwapUint64(&e.state, word, next) {
		return false
	}
	if pair.Units == 0 {
		s.dropEntry(a, e)
	}
	return true
}

// dropEntry drops a held entry. Its slot becomes free when the segment is next tidied.
func (s *Store) dropEntry(a *access, e *slot) {
	atomic.StoreUint64(&e.tag, tombstone<<layoutBits)
	s.shards[a.shard()].recordSweep(a.now + a.lag)
}

// Give returns units that were taken. See [headgate.Limiter].
func (s *Store) Give(ctx context.Context, c headgate.Check, r headgate.Receipt) error {
	p, err := s.prepare(ctx, &c)
	if err != nil {
		return err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return err
	}
	a := s.newAccess(p, c.Key, c.Cost)
	sh := s.lockFor(&a)
	defer sh.mu.Unlock()
	if record := sh.records.lookup(a.hash); record != nil {
		a.giveRecord(record, r)
		return nil
	}
	if e := s.entry(a.hash); e != nil {
		s.giveEntry(&a, e, r)
	}
	return nil
}

// giveRecord refunds units to the state in a record, by the limit under which it was written. The state does not grow.
func (a *access) giveRecord(record []int64, r headgate.Receipt) {
	state := stateOf(record)
	if a.plan.Owns(state) {
		state = a.plan.Give(state, a.now, a.n, r)
		a.storeState(record, state, a.plan.Decide(state, a.now, 0).ResetAfter)
		return
	}
	shift := a.shift(state)
	r.At -= shift
	record[recordWords] = int64(len(state.GiveBack(&a.plan.Plan, a.now-shift, a.n, r))) // does not grow
}

// giveEntry refunds units to the pair in an entry, by the limit under which it was written. If the result does not fit
// the word, a fraction of a unit is not refunded.
func (s *Store) giveEntry(a *access, e *slot, r headgate.Receipt) {
	w := s.layouts.byID[atomic.LoadUint64(&e.tag)&layoutMask].Load()
	if w == nil {
		if a.plan.id != briefID || !a.plan.compact {
			return // the limit under which the entry was written is unknown
		}
		w = &layoutPlan{a.plan.layout, a.plan.Plan}
	}
	offset := w.plan.Offset(a.key)
	now := a.now + a.lag - offset
	r.At += a.lag - offset
	for {
		word := e.waitUnclaimed()
		pair := w.clampLast(w.unseal(a.tag(), word, a.now+a.lag), now)
		given := w.plan.GivePair(&a.plan.Plan, pair, now, a.n, r)
		if !w.holds(given) {
			at, units := w.plan.ConsumedPair(given, now)
			given = algorithm.Pair{Time: at, Units: units, Last: at}
		}
		if s.swapPair(a, e, word, given, &w.layout) {
			return
		}
	}
}

// Reset clears the consumption of the check's key. See [headgate.Limiter].
func (s *Store) Reset(ctx context.Context, c headgate.Check) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	for _, kind := range []algorithm.Kind{algorithm.KindBucket, algorithm.KindLeases} {
		a := access{key: c.Key, hash: maphash.String(s.seeds[kind], c.Key), now: s.now()}
		sh := &s.shards[a.shard()]
		sh.mu.Lock()
		if sh.records.lookup(a.hash) != nil {
			s.drop(&sh.records, a.hash)
			sh.recordSweep(a.now)
		}
		if e := s.entry(a.hash); e != nil {
			e.hold()
			s.dropEntry(&a, e)
		}
		sh.mu.Unlock()
	}
	return nil
}

// Renew extends the lease of a concurrency limit by another TTL. See [headgate.Limiter].
func (s *Store) Renew(ctx context.Context, c headgate.Check, r headgate.Receipt) (held bool, err error) {
	p, err := s.prepare(ctx, &c)
	if err != nil {
		return false, err
	}
	if err := headgate.ValidateRefund(c.Cost, r); err != nil {
		return false, err
	}
	if c.Limit.Algorithm != headgate.Concurrency {
		return false, headgate.ErrUnsupported
	}
	a := s.newAccess(p, c.Key, c.Cost)
	sh := s.lockFor(&a)
	defer sh.mu.Unlock()
	if err := s.moveToRecord(sh, &a); err != nil {
		return false, err
	}
	record, err := s.recordWithRoom(sh, &a)
	if err != nil {
		return false, err
	}
	state, held, err := p.Renew(stateOf(record), a.now, a.n, r.Lease)
	if err != nil {
		return false, err
	}
	a.storeState(record, state, p.Decide(state, a.now, 0).ResetAfter)
	return held, nil
}
