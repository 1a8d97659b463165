package memstore

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
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
	next algorithm.Pair // after the taking, if that is allowed
	wide bool           // it has a record

	record        []int64 // where that was found, as long as nothing has moved
	words         int64   // how long its state is
	pinned        bool    // the key's record cannot be evicted meanwhile; these are what it says otherwise
	until, denied int64
	taken         bool // it was taken from the record already, which had this state before
	before        [5]int64
}

// TakeAll takes all or none. See [headgate.Limiter].
//
// In the usual case it goes a short way: see claim.go. Otherwise it locks the shards of its keys, in order, and holds the
// entries that are decided by swapping; so nothing is taken between its first look and its last change, and no two of them
// wait for each other.
func (s *Store) TakeAll(ctx context.Context, checks []headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	if err := s.admit(ctx); err != nil {
		return dst, err
	}
	// Most have few, and clearing room for many takes as long as a decision.
	switch n := len(checks); {
	case n == 0:
		return dst, nil
	case n == 1:
		return s.takeOne(&checks[0], dst)
	case n <= 4:
		var room [4]claim
		return s.takeMany(checks, room[:n], dst)
	case n <= 16:
		var room [16]claim
		return s.takeMany(checks, room[:n], dst)
	case n <= headgate.MaxChecks:
		return s.takeMany(checks, make([]claim, n), dst)
	default:
		return dst, headgate.ValidateAll(checks)
	}
}

// takeOne is TakeAll of one check.
func (s *Store) takeOne(c *headgate.Check, dst []headgate.Decision) ([]headgate.Decision, error) {
	p, err := s.planOf(c)
	if err != nil {
		return dst, err
	}
	last := len(dst)
	dst = append(dst, headgate.Decision{})
	err = s.take(p, c.Key, c.Cost, &dst[last])
	p.done()
	if err != nil {
		return dst[:last], err
	}
	return dst, nil
}

// takeMany is TakeAll of several. The claims are zero, one for each check.
func (s *Store) takeMany(checks []headgate.Check, claims []claim, dst []headgate.Decision) ([]headgate.Decision, error) {
	if err := s.prepareAll(checks, claims); err != nil {
		return dst, err
	}
	now := s.now() // when the keys are in the cache and before the table is looked at; see ask
	for i := range claims {
		claims[i].at(now)
	}
	from, err := len(dst), error(nil)
	dst = slices.Grow(dst, len(claims))[:from+len(claims)]
	if !s.takeShort(claims, dst[from:], now) {
		dst, err = s.takeTogether(claims, dst[:from], now)
	}
	for i := range claims {
		claims[i].plan.done()
	}
	return dst, err
}

// prepareAll finds the plans and hashes of checks, and returns an error if some cannot be, or not together.
func (s *Store) prepareAll(checks []headgate.Check, claims []claim) error {
	for i := range checks {
		c, to := &checks[i], &claims[i]
		plan, err := s.planOf(c)
		if err != nil {
			return cmp.Or(headgate.ValidateAll(checks), err)
		}
		to.plan, to.key, to.hash, to.n = plan, c.Key, s.hash(plan, c.Key), c.Cost
		for j := range i {
			// Equal keys have equal hashes, unless they are for different kinds of state.
			if k := &claims[j]; k.hash == to.hash || k.plan.kind != plan.kind && checks[j].Key == c.Key {
				if err := headgate.ValidateAll(checks); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// takeTogether takes all or none in the long way. now is the store's time at which the asks are.
func (s *Store) takeTogether(asks []claim, dst []headgate.Decision, now int64) ([]headgate.Decision, error) {
	switch n := len(asks); {
	case n <= 4:
		var room [4]part
		return s.takeLocked(asks, room[:n], dst, now)
	case n <= 16:
		var room [16]part
		return s.takeLocked(asks, room[:n], dst, now)
	default:
		return s.takeLocked(asks, make([]part, n), dst, now)
	}
}

func (s *Store) takeLocked(asks []claim, parts []part, dst []headgate.Decision, now int64) ([]headgate.Decision, error) {
	var locked shardSet
	for i := range asks {
		parts[i].ask = asks[i].ask
		locked.add(parts[i].shard())
	}
	for s.lock(&locked); !s.valid(now); s.lock(&locked) {
		s.unlock(&locked)
		now = s.now()
		for i := range parts {
			parts[i].at(now)
		}
	}
	defer s.unlock(&locked)
	s.reach(parts)
	if !slices.ContainsFunc(parts, func(p part) bool { return p.takes() }) {
		return s.peekParts(parts, dst), nil
	}
	return s.takeParts(parts, dst)
}

// peekParts decides parts none of which can take. It holds their entries meanwhile, so that it sees all of what another
// call takes from them, or nothing.
func (s *Store) peekParts(parts []part, dst []headgate.Decision) []headgate.Decision {
	for i := range parts {
		if p := &parts[i]; p.plan.kind != algorithm.KindLeases {
			if p.slot = s.entry(p.hash); p.slot != nil {
				p.word = p.slot.hold() &^ held
			}
		}
	}
	before, allowed := len(dst), true
	for i := range parts {
		p := &parts[i]
		d := s.peek(&s.shards[p.shard()], &p.ask, p.n)
		allowed = allowed && d.Allowed
		dst = append(dst, d)
	}
	for i := range parts {
		p := &parts[i]
		if !allowed && dst[before+i].Allowed {
			dst[before+i] = s.peek(&s.shards[p.shard()], &p.ask, 0)
		}
		if p.slot != nil {
			atomic.StoreUint64(&p.slot.state, p.word)
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

// reach reads what the parts need and does nothing else. What is not in the cache the processor then fetches for all parts
// at once; it would not look ahead past a lock or a swap.
func (s *Store) reach(parts []part) {
	for i := range parts {
		if parts[i].plan.compact {
			s.fetch(parts[i].hash)
		}
	}
	for i := range parts {
		if p := &parts[i]; !p.plan.compact {
			p.find(&s.shards[p.shard()])
		}
	}
}

// fetch reads the places where the entry of a key most likely is.
func (s *Store) fetch(hash uint64) {
	if d := s.dirs[hash>>(64-shardBits)].Load(); d != nil {
		tag := tagOf(hash)
		base, slot := d.bases[(tag>>d.shift)&uint64(len(d.bases)-1)].Load(), tag&d.mask
		atomic.LoadUint64(&at(base, slot).tag)
		atomic.LoadUint64(&at(base, (slot+lineSlots)&d.mask).tag) // keys are often found a little further
	}
}

// find looks up the record of a part.
func (p *part) find(sh *shard) {
	if p.record = sh.wide.lookup(p.hash); p.record != nil {
		p.words = p.record[recordWords]
	}
}

// takeParts decides the parts, whose shards are locked.
func (s *Store) takeParts(parts []part, dst []headgate.Decision) ([]headgate.Decision, error) {
	moved := false
	for i := range parts {
		moves, err := s.makePlace(&parts[i], moved)
		if err != nil {
			for j := range i {
				parts[j].record = nil // it may have moved
				s.hold(&parts[j])
				s.letGo(&parts[j], true)
			}
			return dst, err
		}
		moved = moved || moves
	}
	before, allowed := len(dst), true
	dst = slices.Grow(dst, len(parts))[:before+len(parts)]
	for i := range parts {
		p, d := &parts[i], &dst[before+i]
		if moved || p.slot == nil && p.record == nil {
			p.record = nil
			s.hold(p)
		}
		s.tryPart(p, d)
		allowed = allowed && d.Allowed
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
// the other parts can drop. An entry is held from here on, so that nobody sees a new one before its time. It is told whether
// entries may have been moved since the parts were reached for, and reports whether some may have been moved for it.
func (s *Store) makePlace(p *part, moved bool) (moves bool, err error) {
	sh := &s.shards[p.shard()]
	if p.plan.compact {
		if e := s.entry(p.hash); e != nil { // then it has no record
			kept, err := s.adopt(sh, &p.ask, e)
			if kept != nil && p.takes() {
				p.hold(kept)
				return false, nil
			}
			if moves = kept == nil; err != nil {
				return moves, err
			}
		}
	}
	if p.plan.compact || moved {
		p.find(sh)
	}
	if p.record != nil && !p.plan.Owns(stateOf(p.record)) {
		if _, err := s.adoptRecord(sh, &p.ask, p.record); err != nil {
			return true, err
		}
		p.find(sh)
		moves = true
	}
	if !p.takes() {
		if p.record == nil && !p.plan.compact && s.entry(p.hash) != nil {
			return true, s.widen(sh, &p.ask)
		}
		return moves, nil
	}
	if p.plan.compact && p.record == nil {
		g, err := s.room(&p.ask)
		if err != nil {
			s.refusals.Add(1)
			return true, err
		}
		g.add(p.tagWord(), held|p.seal(algorithm.Pair{}))
		return true, nil
	}
	if p.record != nil && len(p.record) >= recordState+p.wordsAfter(p.words) {
		p.wide = true
		p.pin(p.record)
		return moves, nil
	}
	if err := s.widen(sh, &p.ask); err != nil {
		return true, err
	}
	record, err := s.roomWide(sh, &p.ask)
	if err != nil {
		return true, err
	}
	p.pin(record)
	return true, nil
}

// pin keeps the record of a part from being evicted, until it is taken from or let go.
func (p *part) pin(record []int64) {
	p.pinned, p.until, p.denied = true, record[recordUntil], record[recordDenied]
	record[recordUntil], record[recordDenied] = math.MaxInt64, 1
}

// unpin lets the record of a part be evicted again.
func (p *part) unpin(record []int64) {
	record[recordUntil], record[recordDenied] = p.until, p.denied
}

// hold holds the entry of a part, if it has one and may take from it, and reads it.
func (s *Store) hold(p *part) {
	if p.plan.IsPair() {
		if e := s.entry(p.hash); e != nil { // then it has no record
			p.hold(e)
			return
		}
	}
	p.wide = !p.plan.IsPair() || s.shards[p.shard()].wide.lookup(p.hash) != nil
}

// hold holds the entry of the part's key, and reads it.
func (p *part) hold(e *slot) {
	p.slot, p.word = e, e.hold()&^held
	p.pair = p.unseal(p.word)
}

// tryPart decides what a part asks for, and notes what its entry would come to. The decision is written where it stays,
// since copies of it take longer than making it.
func (s *Store) tryPart(p *part, d *headgate.Decision) {
	if p.pinned && p.record != nil && (p.plan.IsPair() || p.plan.kind == algorithm.KindWindows) {
		p.tryRecord(d)
		return
	}
	if p.wide || !p.takes() {
		*d = s.decidePart(p, p.n)
		return
	}
	next, ok := p.plan.TakePair(p.pair, p.now, p.n)
	if !ok {
		*d = p.plan.DecidePair(p.pair, p.now, p.n)
		return
	}
	p.next = next
	p.plan.Describe(d, next, p.now, p.n)
}

// tryRecord takes from the record of a part, and keeps its state, which is short, to put it back if another part is denied:
// that costs less than to decide twice.
func (p *part) tryRecord(d *headgate.Decision) {
	state := stateOf(p.record)
	copy(p.before[:], state)
	state, *d = p.plan.Take(state, p.now, p.n, 0)
	if p.taken = d.Allowed; p.taken {
		p.unpin(p.record)
		p.settle(p.record, state, d.ResetAfter)
	}
}

// decidePart decides n units of a part, as it stood when it was held.
func (s *Store) decidePart(p *part, n int64) headgate.Decision {
	switch {
	case p.record != nil:
		return p.decideRecord(p.record, n)
	case p.wide:
		return s.decideWide(&s.shards[p.shard()], &p.ask, n)
	default:
		return p.plan.DecidePair(p.pair, p.now, n)
	}
}

// takePart takes what was allowed.
func (s *Store) takePart(p *part, d *headgate.Decision) {
	switch {
	case p.slot != nil:
		if p.n > 0 {
			p.word = p.seal(p.next) | p.plan.stillDenied(p.tag(), p.word, p.now+p.behind)
		}
		atomic.StoreUint64(&p.slot.state, p.word)
	case p.taken:
	case p.n > 0:
		record := p.record
		if record == nil {
			record = s.shards[p.shard()].wide.lookup(p.hash)
		}
		p.unpin(record)
		*d = p.commitRecord(record)
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
	record := p.record
	if record == nil {
		record = sh.wide.lookup(p.hash)
	}
	if p.taken {
		record[recordWords] = int64(copy(record[recordState:], p.before[:p.words]))
	}
	if record[recordWords] == 0 { // it was made for this
		s.drop(&sh.wide, p.hash)
		p.record = nil
		return
	}
	p.unpin(record)
	if !allowed {
		s.decideWide(sh, &p.ask, p.n) // notes the denial
	}
}
