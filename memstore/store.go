package memstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/memstore/internal/memory"
)

var _ headgate.Limiter = (*Store)(nil)

// A Store is a headgate.Limiter that keeps its counters in the memory of this process. Create one with New: methods of
// the zero Store panic. It is safe for concurrent use. Bind is the fastest way to apply one limit to many keys.
type Store struct {
	// Read on every decision, rarely written.
	clock     clock
	validFrom atomic.Int64 // start of the range of valid times: see sweep.go
	closed    atomic.Bool
	seeds     [algorithm.KindCustom + 1]maphash.Seed
	dirs      [1 << shardBits]atomic.Pointer[directory]
	plans     algorithm.Cache[*plan]

	layouts layouts
	custom  map[headgate.Algorithm]algorithm.Custom

	shards [1 << shardBits]shard

	budget    memory.Budget
	evictions atomic.Int64
	refusals  atomic.Int64
	stopwatch stopwatch

	segmentPool segmentPool
	scratch     scratch
	sweepMu     sync.Mutex // held to change validFrom

	stop    chan struct{}
	running sync.WaitGroup
}

// New returns an empty store. Close ends its goroutines, which sweep and prepare memory.
func New(o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Store{
		clock:  newClock(o.Now),
		custom: maps.Clone(o.Algorithms),
		stop:   make(chan struct{}),
	}
	s.budget.SetLimit(o.MaxBytes)
	s.segmentPool.refill = make(chan struct{}, 1)
	// All kinds of limits share one state per key, so that the consumption stays if the limit of a key changes. Only
	// leases have a state of their own, because slots in use are not consumption.
	consumed := maphash.MakeSeed()
	for kind := range s.seeds {
		s.seeds[kind] = consumed
	}
	s.seeds[algorithm.KindLeases] = maphash.MakeSeed()
	now := s.clock.micros()
	if now < 0 {
		return nil, fmt.Errorf("memstore: Now is at %s: want a time after 1970", time.UnixMicro(now).UTC())
	}
	s.validFrom.Store(now - validBefore)
	s.running.Add(2)
	go s.sweepPeriodically()
	go s.refillSegmentPool()
	return s, nil
}

// MustNew is like New, but panics if the options are invalid.
func MustNew(o Options) *Store {
	s, err := New(o)
	if err != nil {
		panic(err)
	}
	return s
}

// Close ends the goroutines of the store and waits for them. Methods fail with headgate.ErrClosed after Close. Closing
// again does nothing.
func (s *Store) Close() error {
	if !s.closed.Swap(true) {
		close(s.stop)
	}
	s.running.Wait()
	return nil
}

// BorrowsKeys marks a limiter that does not keep the strings of a check after the call returns. So a caller may reuse
// the memory of its keys.
func (s *Store) BorrowsKeys() {}

// checkOpen returns an error if the context has ended or the store is closed.
func (s *Store) checkOpen(ctx context.Context) error {
	if ctx == nil {
		return headgate.ErrNilContext
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.closed.Load() {
		return headgate.ErrClosed
	}
	return nil
}

// Take decides one check. See [headgate.Limiter].
func (s *Store) Take(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	p, err := s.prepare(ctx, &c)
	if err != nil {
		return d, err
	}
	err = s.take(p, c.Key, c.Cost, &d)
	p.putBack()
	return d, err
}

// Peek returns the decision that Take would return now, and takes nothing. See [headgate.Limiter].
func (s *Store) Peek(ctx context.Context, c headgate.Check) (d headgate.Decision, err error) {
	cost := c.Cost
	c.Cost = max(cost, 1)
	p, err := s.prepare(ctx, &c)
	if err != nil || cost < 0 {
		c.Cost = cost
		return d, cmp.Or(err, s.validatable(c).ValidatePeek())
	}
	op := s.newOperation(p, c.Key, cost)
	d = s.peek(&op)
	p.putBack()
	return d, nil
}

// prepare validates a check and returns its plan.
func (s *Store) prepare(ctx context.Context, c *headgate.Check) (*plan, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	return s.planOf(c)
}

// planOf returns the plan of the limit of a check, or an error if the check is invalid.
func (s *Store) planOf(c *headgate.Check) (*plan, error) {
	var err error
	p, found, room := s.plans.Find(&c.Limit)
	if !found {
		p, err = s.planUncached(c.Limit, room)
	}
	if err != nil || c.Cost < 1 || c.Key == "" || len(c.Key) > headgate.MaxKeyBytes {
		return nil, s.validatable(*c).Validate()
	}
	return p, nil
}

// An operation is one check and the values that the store derives from it.
type operation struct {
	plan  *plan
	key   string
	hash  uint64
	now   int64 // by the key's clock, in µs
	lag   int64 // how far the key's clock is behind the store's, in µs
	units int64
}

// newOperation returns the operation of a check.
func (s *Store) newOperation(p *plan, key string, n int64) (op operation) {
	op.init(s, p, key, n)
	return op
}

// init sets all fields of an operation. It reads the clock before the table is accessed: reading the clock waits for
// all earlier reads of memory, and the table is probably not in the CPU's cache.
func (op *operation) init(s *Store, p *plan, key string, n int64) {
	op.plan, op.key, op.units = p, key, n
	op.hash = s.hash(p, key)
	op.setTime(s.now())
}

func (s *Store) hash(p *plan, key string) uint64 { return maphash.String(s.seeds[p.kind], key) }

// setTime sets the time of the operation, given the store's time.
func (op *operation) setTime(now int64) {
	if op.plan.limit.Staggered {
		op.lag = op.plan.Offset(op.key)
	}
	op.now = now - op.lag
}

func (op *operation) storeTime() int64 { return op.now + op.lag }

func (op *operation) shard() uint8 { return uint8(op.hash >> (64 - shardBits)) }
func (op *operation) tag() uint64  { return tagOf(op.hash) }

// unseal returns the pair in the key's state word, which must have the layout of the plan. It interprets the word at
// the store's time, because the key's clock may be behind by a period.
func (op *operation) unseal(word uint64) algorithm.Pair {
	return op.plan.unseal(op.tag(), word, op.storeTime())
}

// seal returns the key's state word for a pair, in the layout of the plan.
func (op *operation) seal(pair algorithm.Pair) uint64 { return op.plan.seal(op.tag(), pair) }

// feasible reports whether the limit can ever allow n units.
func (op *operation) feasible() bool { return op.units <= op.plan.Capacity() }

// tagWord returns the tag word of the key's entry.
func (op *operation) tagWord() uint64 { return op.tag()<<layoutBits | op.plan.id }

// take takes n units if the limit allows it. It writes the decision to d, because copying a decision takes longer than
// computing it.
func (s *Store) take(p *plan, key string, n int64, d *headgate.Decision) (err error) {
	var op operation // without newOperation, which would copy it
	op.init(s, p, key, n)
	if !op.feasible() {
		*d = s.peek(&op)
		return nil
	}
	if !p.compact {
		return s.takeByRecord(&op, d)
	}
	for {
		pair, result := s.takeCompact(p, op.hash, op.now, n)
		switch result {
		case takeAllowed:
			p.Describe(d, pair, op.now, n)
			return nil
		case takeDenied:
			*d = p.DecidePair(pair, op.now, n)
			return nil
		case keyAbsent:
			if err := s.takeAbsent(&op, d); !errors.Is(err, errRetry) {
				return err
			}
		case layoutChanged:
			if err := s.lockAndConvert(&op); err != nil {
				return err
			}
		case needsRecord:
			if s.takeByRecord(&op, d) != nil { // no room: the denial is not recorded
				*d = p.DecidePair(pair, op.now, n)
			}
			return nil
		}
		op.setTime(s.nowInRange())
	}
}

// errRetry is what takeAbsent returns to make take try again.
var errRetry = errors.New("the clock has jumped, or the limit changed")

// peek decides without taking.
func (s *Store) peek(op *operation) headgate.Decision {
	if op.plan.compact {
		if pair, found := s.read(op); found {
			return op.plan.PeekPair(pair, op.now, op.units)
		}
	}
	sh := s.lockFor(op)
	defer sh.mu.Unlock()
	return s.peekLocked(sh, op, op.units)
}

// read returns the pair of a key if it is found without a lock.
func (s *Store) read(op *operation) (algorithm.Pair, bool) {
	e := s.entry(op.hash)
	if e == nil {
		return algorithm.Pair{}, false
	}
	word := atomic.LoadUint64(&e.state)
	if word&heldBit != 0 || atomic.LoadUint64(&e.tag) != op.tagWord() ||
		atomic.LoadUint64(&e.state) != word || !s.validAt(op.now) {
		return algorithm.Pair{}, false
	}
	return op.plan.unseal(op.tag(), word, op.now), true
}

// entry returns the entry of a key, or nil. Without the shard's lock the entry may move at any time, and nil may mean
// that it has just moved.
func (s *Store) entry(hash uint64) *slot {
	d := s.dirs[hash>>(64-shardBits)].Load()
	if d == nil {
		return nil
	}
	tag := tagOf(hash)
	base := d.bases[(tag>>d.shift)&uint64(len(d.bases)-1)].Load()
	if e := slotAt(base, tag&d.mask); atomic.LoadUint64(&e.tag)>>layoutBits == tag {
		return e
	}
	return probe(base, d.mask, tag)
}

// An outcome is the result of takeCompact.
type outcome uint8

const (
	takeDenied outcome = iota
	takeAllowed
	keyAbsent     // the key was not found; without the shard's lock, its entry may just have moved
	clockJumped   // the clock has jumped so far that the entry may not be readable at the operation's time
	layoutChanged // the entry has the layout of another limit
	needsRecord   // the denial changes the pair (see algorithm.Plan.DenyPair), which then does not fit a word
)

// takeCompact takes n units from an entry without a lock, by a compare-and-swap. It returns the pair after an allowed
// take, or the unchanged pair after a denial. Almost every decision is made here.
func (s *Store) takeCompact(p *plan, hash uint64, now, n int64) (algorithm.Pair, outcome) {
	tag := tagOf(hash)
	for spins := 1; ; spins++ {
		e := s.entry(hash)
		if e == nil {
			return algorithm.Pair{}, keyAbsent
		}
		for failed := 0; ; {
			word := atomic.LoadUint64(&e.state)
			tagWord := atomic.LoadUint64(&e.tag)
			if word&heldBit != 0 || tagWord>>layoutBits != tag { // the entry is being moved, or was moved
				break
			}
			if !s.validAt(now) {
				return algorithm.Pair{}, clockJumped
			}
			if tagWord&layoutMask != p.id {
				return algorithm.Pair{}, layoutChanged
			}
			pair := p.unseal(tag, word, now)
			last := pair.Last
			pair, ok := p.TakePair(pair, now, n)
			if !ok {
				denial := takeDenied
				if pair.Last != last {
					denial = needsRecord
				}
				if word&deniedBit != 0 { // the bit is already set, unless the slot has another key by now
					if atomic.LoadUint64(&e.state) == word {
						return pair, denial
					}
				} else if atomic.CompareAndSwapUint64(&e.state, word, word|deniedBit) {
					return pair, denial
				}
				continue
			}
			if atomic.CompareAndSwapUint64(&e.state, word, p.seal(tag, pair)|p.stillDenied(tag, word, now)) {
				return pair, takeAllowed
			}
			if failed++; failed == hotSwaps {
				pauseForOthers()
			}
		}
		pause(spins)
	}
}

// takeAbsent takes for a key that takeCompact did not find.
func (s *Store) takeAbsent(op *operation, d *headgate.Decision) error {
	sh := &s.shards[op.shard()]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if !s.validAt(op.now) {
		return errRetry
	}
	if record := sh.records.lookup(op.hash); record != nil {
		return s.takeGrowing(sh, op, record, d)
	}
	// With the lock, no other goroutine can add, move or drop the entry, so it is found if it exists.
	pair, result := s.takeCompact(op.plan, op.hash, op.now, op.units)
	switch result {
	case takeAllowed:
		op.plan.Describe(d, pair, op.now, op.units)
		return nil
	case takeDenied:
		*d = op.plan.DecidePair(pair, op.now, op.units)
		return nil
	case clockJumped, layoutChanged, needsRecord:
		return errRetry
	}
	g, err := s.segmentWithRoom(op)
	if err != nil {
		s.refusals.Add(1)
		return err
	}
	pair, _ = op.plan.TakePair(algorithm.Pair{}, op.now, op.units)
	g.add(op.tagWord(), op.seal(pair))
	op.plan.Describe(d, pair, op.now, op.units)
	return nil
}
