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
	a := s.ask(p, c.Key, c.Cost)
	sh := s.lockFor(&a)
	defer sh.mu.Unlock()
	if p.compact && sh.wide.lookup(a.hash) == nil {
		d, fits, err := s.chargeCompact(sh, &a)
		if fits || err != nil {
			return d, err
		}
	}
	if err := s.widen(sh, &a); err != nil {
		return headgate.Decision{}, err
	}
	record, err := s.roomWide(sh, &a)
	if err != nil {
		return headgate.Decision{}, err
	}
	state, d, err := p.Charge(stateOf(record), a.now, a.n)
	if err != nil {
		return headgate.Decision{}, err
	}
	a.settle(record, state, d.ResetAfter)
	return d, nil
}

// chargeCompact charges the entry of a key, or a new one. It returns false and charges nothing if the result does not
// fit a word, or if the key has a record now.
func (s *Store) chargeCompact(sh *shard, a *ask) (d headgate.Decision, fits bool, err error) {
	e, err := s.adopt(sh, a, s.entry(a.hash))
	if err != nil || sh.wide.lookup(a.hash) != nil {
		return d, false, err
	}
	if e == nil {
		pair, d := a.plan.ChargePair(algorithm.Pair{}, a.now, a.n)
		if !a.plan.holds(pair) {
			return d, false, nil
		}
		g, err := s.room(a)
		if err != nil {
			s.refusals.Add(1)
			return headgate.Decision{}, false, err
		}
		pair, d = a.plan.ChargePair(algorithm.Pair{}, a.now, a.n) // room may have moved the time
		g.add(a.tagWord(), a.seal(pair))
		return d, true, nil
	}
	fits = s.change(a, e, func(pair algorithm.Pair) (algorithm.Pair, bool) {
		pair, d = a.plan.ChargePair(pair, a.now, a.n)
		return pair, a.plan.holds(pair)
	})
	return d, fits, nil
}

// lockFor locks the shard of an ask, and makes entries readable at the time of the ask.
func (s *Store) lockFor(a *ask) *shard {
	sh := &s.shards[a.shard()]
	for {
		sh.mu.Lock()
		if s.valid(a.now + a.behind) {
			return sh
		}
		sh.mu.Unlock()
		a.at(s.now())
	}
}

// change replaces the pair in the entry of a key, whose layout is that of the plan, by the result of to, unless to
// returns false. A key without units is dropped. The shard is locked, so the entry stays in its slot.
func (s *Store) change(a *ask, e *slot, to func(algorithm.Pair) (algorithm.Pair, bool)) bool {
	for {
		word := e.unclaimed()
		pair, ok := to(a.unseal(word))
		if !ok {
			return false
		}
		if s.replace(a, e, word, pair, &a.plan.layout) {
			return true
		}
	}
}

// replace replaces a word by that of a pair of the same layout, unless the word has changed, and drops an entry without
// units.
func (s *Store) replace(a *ask, e *slot, word uint64, pair algorithm.Pair, l *layout) bool {
	next := l.seal(a.tag(), pair) | l.stillDenied(a.tag(), word, a.now+a.behind)
	if pair.Units == 0 {
		next = held
	}
	if !atomic.CompareAndSwapUint64(&e.state, word, next) {
		return false
	}
	if pair.Units == 0 {
		s.forgetEntry(a, e)
	}
	return true
}

// forgetEntry drops a held entry. Its slot is free when the segment is next tidied.
func (s *Store) forgetEntry(a *ask, e *slot) {
	atomic.StoreUint64(&e.tag, gone<<layoutBits)
	s.shards[a.shard()].sweptAt(a.now + a.behind)
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
	a := s.ask(p, c.Key, c.Cost)
	sh := s.lockFor(&a)
	defer sh.mu.Unlock()
	if record := sh.wide.lookup(a.hash); record != nil {
		a.giveRecord(record, r)
		return nil
	}
	if e := s.entry(a.hash); e != nil {
		s.giveEntry(&a, e, r)
	}
	return nil
}

// giveRecord gives back to the state in a record, by the limit that it was written under. That needs no more room.
func (a *ask) giveRecord(record []int64, r headgate.Receipt) {
	state := stateOf(record)
	if a.plan.Owns(state) {
		state = a.plan.Give(state, a.now, a.n, r)
		a.settle(record, state, a.plan.Decide(state, a.now, 0).ResetAfter)
		return
	}
	shift := a.shift(state)
	r.At -= shift
	record[recordWords] = int64(len(state.GiveBack(&a.plan.Plan, a.now-shift, a.n, r))) // does not grow
}

// giveEntry gives back to the pair in an entry, by the limit that it was written under. If the result does not fit the
// word, a fraction of a unit is not given back.
func (s *Store) giveEntry(a *ask, e *slot, r headgate.Receipt) {
	w := s.layouts.places[atomic.LoadUint64(&e.tag)&layoutMask].Load()
	if w == nil {
		if a.plan.id != anonymous || !a.plan.compact {
			return // the limit of the entry is not known
		}
		w = &layoutPlan{a.plan.layout, a.plan.Plan}
	}
	offset := w.plan.Offset(a.key)
	now := a.now + a.behind - offset
	r.At += a.behind - offset
	for {
		word := e.unclaimed()
		pair := w.settled(w.unseal(a.tag(), word, a.now+a.behind), now)
		given := w.plan.GivePair(&a.plan.Plan, pair, now, a.n, r)
		if !w.holds(given) {
			at, units := w.plan.ConsumedPair(given, now)
			given = algorithm.Pair{Time: at, Units: units, Last: at}
		}
		if s.replace(a, e, word, given, &w.layout) {
			return
		}
	}
}

// Reset forgets what was consumed under the check's key. See [headgate.Limiter].
func (s *Store) Reset(ctx context.Context, c headgate.Check) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	for _, kind := range []algorithm.Kind{algorithm.KindBucket, algorithm.KindLeases} {
		a := ask{key: c.Key, hash: maphash.String(s.seeds[kind], c.Key), now: s.now()}
		sh := &s.shards[a.shard()]
		sh.mu.Lock()
		if sh.wide.lookup(a.hash) != nil {
			s.drop(&sh.wide, a.hash)
			sh.sweptAt(a.now)
		}
		if e := s.entry(a.hash); e != nil {
			e.hold()
			s.forgetEntry(&a, e)
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
	a := s.ask(p, c.Key, c.Cost)
	sh := s.lockFor(&a)
	defer sh.mu.Unlock()
	if err := s.widen(sh, &a); err != nil {
		return false, err
	}
	record, err := s.roomWide(sh, &a)
	if err != nil {
		return false, err
	}
	state, held, err := p.Renew(stateOf(record), a.now, a.n, r.Lease)
	if err != nil {
		return false, err
	}
	a.settle(record, state, p.Decide(state, a.now, 0).ResetAfter)
	return held, nil
}
