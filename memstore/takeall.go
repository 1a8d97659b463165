package memstore

import (
	"context"
	"math"
	"math/bits"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// A part is one check of a TakeAll.
type part struct {
	ask
	slot *slot // the key's entry, held meanwhile; nil if it has a record or nothing
	word uint64
	pair algorithm.Pair

	pinned        bool // the key's record cannot be evicted meanwhile; these are what it says otherwise
	until, denied int64
}

// TakeAll takes all or none. See [headgate.Limiter].
//
// It locks the shards of its keys, in order, and holds the entries that are decided by swapping; so nothing is taken
// between its first look and its last change, and no two of them wait for each other.
func (s *Store) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	if err := s.admit(ctx); err != nil {
		return dst, err
	}
	if len(checks) == 1 {
		d, err := s.Take(ctx, checks[0])
		if err != nil {
			return dst, err
		}
		return append(dst, d), nil
	}
	if err := headgate.ValidateAll(checks); err != nil {
		return dst, err
	}
	var few [8]part
	parts := few[:0]
	for i := range checks {
		c := &checks[i]
		p, err := s.prepare(ctx, c)
		if err != nil {
			return dst, err
		}
		parts = append(parts, part{ask: ask{plan: p, hash: s.hash(p, c.Key), n: c.Cost}})
	}
	locked := shardsOf(parts)
	now := s.now()
	for s.lock(&locked); !s.valid(now); s.lock(&locked) {
		s.unlock(&locked)
		now = s.now()
	}
	defer s.unlock(&locked)
	for i := range parts {
		parts[i].at(now, checks[i].Key)
	}
	return s.takeParts(parts, dst)
}

// A shardSet is a set of shard numbers, in order.
type shardSet [1 << shardBits / 64]uint64

func shardsOf(parts []part) shardSet {
	var set shardSet
	for i := range parts {
		n := parts[i].shard()
		set[n/64] |= 1 << (n % 64)
	}
	return set
}

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

// takeParts decides the parts, whose shards are locked.
func (s *Store) takeParts(parts []part, dst []headgate.Decision) ([]headgate.Decision, error) {
	for i := range parts {
		if err := s.makePlace(&parts[i]); err != nil {
			for j := range i {
				s.hold(&parts[j])
				s.letGo(&parts[j], true)
			}
			return dst, err
		}
	}
	before, allowed := len(dst), true
	for i := range parts {
		s.hold(&parts[i])
		d := s.decidePart(&parts[i], parts[i].n)
		allowed = allowed && d.Allowed
		dst = append(dst, d)
	}
	for i := range parts {
		p, d := &parts[i], &dst[before+i]
		if allowed {
			s.takePart(p, d)
			continue
		}
		s.letGo(p, d.Allowed)
		if d.Allowed {
			*d = s.decidePart(p, 0)
		}
	}
	return dst, nil
}

// makePlace sees that the key of a part that may take has an entry, or a record with room, which nothing that is done for
// the other parts can drop. An entry is held from here on, so that nobody sees a new one before its time.
func (s *Store) makePlace(p *part) error {
	if !p.takes() {
		return nil
	}
	sh := &s.shards[p.shard()]
	if p.plan.compact && sh.wide.lookup(p.hash) == nil {
		if e := s.entry(p.hash); e != nil {
			e.hold()
			return nil
		}
		g, err := s.room(&p.ask)
		if err != nil {
			s.refusals.Add(1)
			return err
		}
		g.add(p.tagWord(), held)
		return nil
	}
	if err := s.widen(sh, &p.ask); err != nil {
		return err
	}
	record, err := s.roomWide(sh, &p.ask)
	if err != nil {
		return err
	}
	p.pinned, p.until, p.denied = true, record[recordUntil], record[recordDenied]
	record[recordUntil], record[recordDenied] = math.MaxInt64, 1
	return nil
}

// hold holds the entry of a part, if it has one and may take from it, and reads it.
func (s *Store) hold(p *part) {
	if !p.plan.IsPair() || s.shards[p.shard()].wide.lookup(p.hash) != nil {
		return
	}
	e := s.entry(p.hash)
	if e == nil {
		return
	}
	e.live(p.tag(), p.plan.life)
	p.slot, p.word = e, e.hold()&^held
	p.pair = unpack(p.word, p.now)
}

// decidePart decides n units of a part, as it stood when it was held.
func (s *Store) decidePart(p *part, n int64) headgate.Decision {
	if p.plan.IsPair() {
		if sh := &s.shards[p.shard()]; sh.wide.lookup(p.hash) == nil {
			return p.plan.DecidePair(p.pair, p.now, n)
		}
	}
	return s.decideWide(&s.shards[p.shard()], &p.ask, n)
}

// takePart takes what was allowed.
func (s *Store) takePart(p *part, d *headgate.Decision) {
	switch {
	case p.slot != nil:
		if p.n > 0 {
			pair, _ := p.plan.TakePair(p.pair, p.now, p.n)
			p.word = pack(pair) | p.word&parity
		}
		atomic.StoreUint64(&p.slot.state, p.word)
	case p.n > 0:
		*d = s.commitWide(&s.shards[p.shard()], &p.ask)
	}
}

// letGo leaves a part as it was, but for a denial, which is noted.
func (s *Store) letGo(p *part, allowed bool) {
	if p.slot != nil {
		if !allowed {
			p.word |= denied
		}
		if p.pair.Units == 0 { // it was added for this
			s.forgetEntry(&p.ask, p.slot)
			return
		}
		atomic.StoreUint64(&p.slot.state, p.word)
	}
	if !p.pinned {
		return
	}
	sh := &s.shards[p.shard()]
	record := sh.wide.lookup(p.hash)
	if record[recordWords] == 0 { // it was made for this
		s.drop(&sh.wide, p.hash)
		return
	}
	record[recordUntil], record[recordDenied] = p.until, p.denied
	if !allowed {
		s.decideWide(sh, &p.ask, p.n) // notes the denial
	}
}
