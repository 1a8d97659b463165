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
	now := s.now() - p.Offset(c.Key)
	hash := maphash.String(s.seeds[p.kind], c.Key)
	shardNo := uint8(hash >> (64 - shardBits))
	sh := &s.shards[shardNo]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if p.compact && sh.wide.lookup(hash) == nil {
		return s.chargeCompact(p, shardNo, hash, now, c.Cost)
	}
	if err := s.widen(p, sh, hash, now); err != nil {
		return headgate.Decision{}, err
	}
	record, err := s.roomWide(p, sh, hash, now)
	if err != nil {
		return headgate.Decision{}, err
	}
	state, d, err := p.Charge(stateOf(record), now, c.Cost)
	if err != nil {
		return headgate.Decision{}, err
	}
	s.settle(p, record, state, now, d.ResetAfter)
	return d, nil
}

func (s *Store) chargeCompact(p *plan, shardNo uint8, hash uint64, now, n int64) (headgate.Decision, error) {
	var d headgate.Decision
	found := s.change(hash, now, p.life, func(pair algorithm.Pair) algorithm.Pair {
		pair, d = p.ChargePair(pair, now, n)
		return pair
	})
	if found {
		return d, nil
	}
	g, err := s.room(shardNo, tagOf(hash), now)
	if err != nil {
		s.refusals.Add(1)
		return headgate.Decision{}, err
	}
	pair, d := p.ChargePair(algorithm.Pair{}, now, n)
	g.add(tagOf(hash)<<lifeBits|uint64(p.life), pack(pair))
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

// live raises the entry's life byte to at least life. The shard is locked.
func (e *slot) live(life uint8) {
	for {
		tagWord := atomic.LoadUint64(&e.tag)
		if uint8(tagWord) >= life ||
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
	now := s.now() - p.Offset(c.Key)
	hash := maphash.String(s.seeds[p.kind], c.Key)
	sh := &s.shards[hash>>(64-shardBits)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if record := sh.wide.lookup(hash); record != nil {
		state := p.Give(stateOf(record), now, c.Cost, r)
		s.settle(p, record, state, now, p.Decide(state, now, 0).ResetAfter)
		return nil
	}
	if p.IsPair() {
		s.change(hash, now, 0, func(pair algorithm.Pair) algorithm.Pair {
			return p.GivePair(pair, now, c.Cost, r)
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
