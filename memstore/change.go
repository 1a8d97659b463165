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
	sh := &s.shards[a.shard()]
	sh.mu.Lock()
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
	found := s.change(a.hash, a.now, a.plan.life, func(pair algorithm.Pair) algorithm.Pair {
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
	g.add(a.tagWord(), pack(pair))
	return d, nil
}

// change replaces the pair of a key by what to returns, and tells whether the key was there. The shard is locked, so that
// the entry stays where it is.
func (s *Store) change(hash uint64, now int64, life uint8, to func(algorithm.Pair) algorithm.Pair) bool {
	e := s.entry(hash)
	if e == nil {
		return false
	}
	e.live(life)
	for {
		word := atomic.LoadUint64(&e.state)
		if atomic.CompareAndSwapUint64(&e.state, word, word&denied|pack(to(unpack(word, now)))) {
			return true
		}
	}
}

// live raises the entry's life byte to at least life, before a state that needs it is stored.
func (e *slot) live(life uint8) {
	for {
		tagWord := atomic.LoadUint64(&e.tag)
		if tagWord == 0 || uint8(tagWord) >= life ||
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
	sh := &s.shards[a.shard()]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if record := sh.wide.lookup(a.hash); record != nil {
		state := p.Give(stateOf(record), a.now, a.n, r)
		a.settle(record, state, p.Decide(state, a.now, 0).ResetAfter)
		return nil
	}
	if p.IsPair() {
		s.change(a.hash, a.now, 0, func(pair algorithm.Pair) algorithm.Pair {
			return p.GivePair(pair, a.now, a.n, r)
		})
	}
	return nil
}

// Reset forgets what was consumed under a key. See [headgate.Limiter].
func (s *Store) Reset(ctx context.Context, key string) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	if err := headgate.ValidateKey(key); err != nil {
		return err
	}
	for _, seed := range s.seeds {
		hash := maphash.String(seed, key)
		sh := &s.shards[hash>>(64-shardBits)]
		sh.mu.Lock()
		s.drop(&sh.wide, hash)
		s.change(hash, 0, 0, func(algorithm.Pair) algorithm.Pair { return algorithm.Pair{} })
		sh.mu.Unlock()
	}
	return nil
}
