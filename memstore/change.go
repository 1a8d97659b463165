package memstore

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// Charge takes the cost whatever the limit says. See [headgate.Limiter].
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
	sh := s.lockFor(&a, c.Key)
	defer sh.mu.Unlock()
	if p.compact && sh.wide.lookup(a.hash) == nil {
		return s.chargeCompact(&a)
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

func (s *Store) chargeCompact(a *ask) (headgate.Decision, error) {
	var d headgate.Decision
	found := s.change(a, a.plan.life, func(pair algorithm.Pair) algorithm.Pair {
		pair, d = a.plan.ChargePair(pair, a.now, a.n)
		return pair
	})
	if found {
		return d, nil
	}
	g, err := s.room(a)
	if err != nil {
		s.refusals.Add(1)
		return headgate.Decision{}, err
	}
	pair, d := a.plan.ChargePair(algorithm.Pair{}, a.now, a.n)
	g.add(a.tagWord(), seal(a.tag(), pair))
	return d, nil
}

// lockFor locks the shard of an ask, and sees to it that entries are readable at the store's time of asking.
func (s *Store) lockFor(a *ask, key string) *shard {
	sh := &s.shards[a.shard()]
	for {
		sh.mu.Lock()
		if s.valid(a.now + a.behind) {
			return sh
		}
		sh.mu.Unlock()
		a.at(s.now(), key)
	}
}

// change replaces the pair of a key by what to returns, and tells whether the key was there. A key that has no units left
// is forgotten, as if it had been swept. The shard is locked, so that the entry stays where it is.
func (s *Store) change(a *ask, life uint8, to func(algorithm.Pair) algorithm.Pair) bool {
	e := s.entry(a.hash)
	if e == nil {
		return false
	}
	e.live(a.tag(), life)
	for {
		word := e.unclaimed()
		pair := to(a.unseal(word))
		next := seal(a.tag(), pair) | e.stillDenied(word, a.now+a.behind)
		if pair.Units == 0 {
			next = held
		}
		if !atomic.CompareAndSwapUint64(&e.state, word, next) {
			continue
		}
		if pair.Units == 0 {
			s.forgetEntry(a, e)
		}
		return true
	}
}

// forgetEntry lets a held entry be nobody's. Its slot is free when the segment is next tidied.
func (s *Store) forgetEntry(a *ask, e *slot) {
	atomic.StoreUint64(&e.tag, gone<<lifeBits)
	s.shards[a.shard()].sweptAt(a.now + a.behind)
}

// live raises the life byte of a tag's entry to at least life, before a state that needs it is stored.
func (e *slot) live(tag uint64, life uint8) {
	for {
		tagWord := atomic.LoadUint64(&e.tag)
		if tagWord>>lifeBits != tag || uint8(tagWord) >= life ||
			atomic.CompareAndSwapUint64(&e.tag, tagWord, tagWord&^lifeMask|uint64(life)) {
			return
		}
	}
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
	sh := s.lockFor(&a, c.Key)
	defer sh.mu.Unlock()
	if !p.compact {
		// As for a take. In full memory it stays in its word, which gives back all but a part of a unit.
		_ = s.widen(sh, &a)
	}
	if record := sh.wide.lookup(a.hash); record != nil {
		// A limit of more buckets needs a larger one. What is returned does not.
		record, err := s.fit(sh, &a, max(p.Words(), int(record[recordWords])))
		if err != nil {
			return err
		}
		state := p.Give(stateOf(record), a.now, a.n, r)
		a.settle(record, state, p.Decide(state, a.now, 0).ResetAfter)
		return nil
	}
	if p.IsPair() {
		s.change(&a, p.life, func(pair algorithm.Pair) algorithm.Pair { return a.give(pair, r) })
	}
	return nil
}

// give returns the pair after a refund, for a word. The limit may be another than that under which units were consumed, and at
// its rate more may pass, or for longer, than a word has room for: then a part of a unit is not given back.
func (a *ask) give(pair algorithm.Pair, r headgate.Receipt) algorithm.Pair {
	given := a.plan.GivePair(pair, a.now, a.n, r)
	now := max(a.now, pair.Time)
	if given.Units <= unitMask && now-given.Time <= maxLife {
		return given
	}
	return algorithm.Pair{Time: now, Units: a.plan.Capacity() - a.plan.DecidePair(given, now, 0).Remaining}
}

// Reset forgets what was consumed under the check's key. See [headgate.Limiter].
func (s *Store) Reset(ctx context.Context, c headgate.Check) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(c.Key); err != nil {
		return err
	}
	for _, seed := range s.seeds {
		a := ask{hash: maphash.String(seed, c.Key), now: s.now()}
		sh := &s.shards[a.shard()]
		sh.mu.Lock()
		if sh.wide.lookup(a.hash) != nil {
			s.drop(&sh.wide, a.hash)
			sh.sweptAt(a.now)
		}
		s.change(&a, 0, func(algorithm.Pair) algorithm.Pair { return algorithm.Pair{} })
		sh.mu.Unlock()
	}
	return nil
}
