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
	op := s.newOperation(p, c.Key, c.Cost)
	sh := s.lockFor(&op)
	defer sh.mu.Unlock()
	if p.compact && sh.records.lookup(op.hash) == nil {
		d, fits, err := s.chargeCompact(sh, &op)
		if fits || err != nil {
			return d, err
		}
	}
	if err := s.moveToRecord(sh, &op); err != nil {
		return headgate.Decision{}, err
	}
	record, err := s.recordWithRoom(sh, &op)
	if err != nil {
		return headgate.Decision{}, err
	}
	state, d, err := p.Charge(stateOf(record), op.now, op.units)
	if err != nil {
		return headgate.Decision{}, err
	}
	op.storeState(record, state, d.ResetAfter)
	return d, nil
}

// chargeCompact charges the entry of a key, or a new one. It returns false and charges nothing if the result does not
// fit a word, or if the key has a record now.
func (s *Store) chargeCompact(sh *shard, op *operation) (d headgate.Decision, fits bool, err error) {
	e, err := s.convertEntry(sh, op, s.entry(op.hash))
	if err != nil || sh.records.lookup(op.hash) != nil {
		return d, false, err
	}
	if e == nil {
		pair, d := op.plan.ChargePair(algorithm.Pair{}, op.now, op.units)
		if !op.plan.holds(pair) {
			return d, false, nil
		}
		g, err := s.segmentWithRoom(op)
		if err != nil {
			s.refusals.Add(1)
			return headgate.Decision{}, false, err
		}
		pair, d = op.plan.ChargePair(algorithm.Pair{}, op.now, op.units) // segmentWithRoom may have changed the time
		g.add(op.tagWord(), op.seal(pair))
		return d, true, nil
	}
	fits = s.updatePair(op, e, func(pair algorithm.Pair) (algorithm.Pair, bool) {
		pair, d = op.plan.ChargePair(pair, op.now, op.units)
		return pair, op.plan.holds(pair)
	})
	return d, fits, nil
}

// lockFor locks the shard of a key. If entries are not readable at the operation's time, it updates that time first.
func (s *Store) lockFor(op *operation) *shard {
	sh := &s.shards[op.shard()]
	for {
		sh.mu.Lock()
		if s.validAt(op.storeTime()) {
			return sh
		}
		sh.mu.Unlock()
		op.setTime(s.now())
	}
}

// updatePair replaces the pair in the entry of a key by the result of update, unless update returns false. The
// entry has the plan's layout. A key without units is dropped. The shard is locked, so the entry stays in its slot.
func (s *Store) updatePair(op *operation, e *slot, update func(algorithm.Pair) (algorithm.Pair, bool)) bool {
	for {
		word := e.waitUnclaimed()
		pair, ok := update(op.unseal(word))
		if !ok {
			return false
		}
		if s.swapPair(op, e, word, pair, &op.plan.layout) {
			return true
		}
	}
}

// swapPair replaces the word of an entry by the word of a pair of the same layout, and drops an entry without units. It
// returns false if the word has changed since it was read.
func (s *Store) swapPair(op *operation, e *slot, word uint64, pair algorithm.Pair, l *layout) bool {
	next := l.seal(op.tag(), pair) | l.stillDenied(op.tag(), word, op.storeTime())
	if pair.Units == 0 {
		next = heldBit
	}
	if !atomic.CompareAndSwapUint64(&e.state, word, next) {
		return false
	}
	if pair.Units == 0 {
		s.dropEntry(op, e)
	}
	return true
}

// dropEntry drops a held entry. Its slot becomes free when the segment is next tidied.
func (s *Store) dropEntry(op *operation, e *slot) {
	atomic.StoreUint64(&e.tag, tombstone<<layoutBits)
	s.shards[op.shard()].setSwept(op.storeTime())
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
	op := s.newOperation(p, c.Key, c.Cost)
	sh := s.lockFor(&op)
	defer sh.mu.Unlock()
	if record := sh.records.lookup(op.hash); record != nil {
		op.giveRecord(record, r)
		return nil
	}
	if e := s.entry(op.hash); e != nil {
		s.giveEntry(&op, e, r)
	}
	return nil
}

// giveRecord refunds units to the state in a record, by the limit under which it was written. The state does not grow.
func (op *operation) giveRecord(record []int64, r headgate.Receipt) {
	state := stateOf(record)
	if op.plan.Owns(state) {
		state = op.plan.Give(state, op.now, op.units, r)
		op.storeState(record, state, op.plan.Decide(state, op.now, 0).ResetAfter)
		return
	}
	shift := op.shift(state)
	r.At -= shift
	record[atLength] = int64(len(state.GiveBack(&op.plan.Plan, op.now-shift, op.units, r))) // does not grow
}

// giveEntry refunds units to the pair in an entry, by the limit under which it was written. If the result does not fit
// the word, a fraction of a unit is not refunded.
func (s *Store) giveEntry(op *operation, e *slot, r headgate.Receipt) {
	from := s.layouts.byID[atomic.LoadUint64(&e.tag)&layoutMask].Load()
	if from == nil {
		if op.plan.id != briefID || !op.plan.compact {
			return // the limit under which the entry was written is unknown
		}
		from = &layoutPlan{op.plan.layout, op.plan.Plan}
	}
	offset := from.plan.Offset(op.key)
	now := op.storeTime() - offset
	r.At += op.lag - offset
	for {
		word := e.waitUnclaimed()
		pair := from.clampLast(from.unseal(op.tag(), word, op.storeTime()), now)
		given := from.plan.GivePair(&op.plan.Plan, pair, now, op.units, r)
		if !from.holds(given) {
			at, units := from.plan.ConsumedPair(given, now)
			given = algorithm.Pair{Time: at, Units: units, Last: at}
		}
		if s.swapPair(op, e, word, given, &from.layout) {
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
		op := operation{key: c.Key, hash: maphash.String(s.seeds[kind], c.Key), now: s.now()}
		sh := &s.shards[op.shard()]
		sh.mu.Lock()
		if sh.records.lookup(op.hash) != nil {
			s.drop(&sh.records, op.hash)
			sh.setSwept(op.now)
		}
		if e := s.entry(op.hash); e != nil {
			e.hold()
			s.dropEntry(&op, e)
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
	op := s.newOperation(p, c.Key, c.Cost)
	sh := s.lockFor(&op)
	defer sh.mu.Unlock()
	if err := s.moveToRecord(sh, &op); err != nil {
		return false, err
	}
	record, err := s.recordWithRoom(sh, &op)
	if err != nil {
		return false, err
	}
	state, held, err := p.Renew(stateOf(record), op.now, op.units, r.Lease)
	if err != nil {
		return false, err
	}
	op.storeState(record, state, p.Decide(state, op.now, 0).ResetAfter)
	return held, nil
}
