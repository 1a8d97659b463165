package memstore

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

var _ headgate.Limiter = (*Store)(nil)

// A Store is a headgate.Limiter that counts in this process. Make one with New. It is safe for concurrent use; hot paths
// with one limit and many keys are fastest through Bind.
type Store struct {
	// Read on every decision, hardly ever written.
	clock  clock
	from   atomic.Int64 // see lap.go
	closed atomic.Bool
	seeds  [algorithm.Kinds]maphash.Seed
	dirs   [1 << shardBits]atomic.Pointer[directory]
	plans  plans

	shards [1 << shardBits]shard

	budget    budget
	evictions atomic.Int64
	refusals  atomic.Int64

	laps    sync.Mutex // held by whoever completes a lap
	stop    chan struct{}
	stopped chan struct{}
}

// New returns an empty store. It runs a goroutine that sweeps; Close ends it.
func New(o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Store{
		clock:   newClock(o.Now),
		stop:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	s.budget.most = o.MaxBytes
	for kind := range s.seeds {
		s.seeds[kind] = maphash.MakeSeed()
	}
	s.from.Store(s.clock.micros() - validBefore)
	go s.janitor()
	return s, nil
}

// Close ends what New started and waits for it. Later calls of the store's methods fail with headgate.ErrClosed.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return headgate.ErrClosed
	}
	close(s.stop)
	<-s.stopped
	return nil
}

// admit checks what every method is given first.
func (s *Store) admit(ctx context.Context) error {
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
func (s *Store) Take(ctx context.Context, c headgate.Check) (headgate.Decision, error) {
	p, err := s.prepare(ctx, &c)
	if err != nil {
		return headgate.Decision{}, err
	}
	return s.take(p, c.Key, c.Cost)
}

// prepare checks a check and returns its plan.
func (s *Store) prepare(ctx context.Context, c *headgate.Check) (*plan, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	p, err := s.plans.get(&c.Limit)
	if err != nil || c.Cost < 0 || c.Key == "" || len(c.Key) > headgate.MaxKeyBytes {
		return nil, c.Validate()
	}
	return p, nil
}

func (s *Store) take(p *plan, key string, n int64) (headgate.Decision, error) {
	now := s.now() - p.Offset(key)
	hash := maphash.String(s.seeds[p.kind], key)
	if !p.compact {
		return s.takeWide(p, hash, now, n)
	}
	if n == 0 || n > p.Capacity() {
		return s.look(p, hash, now, n)
	}
	pair, took := s.takeCompact(p, hash, now, n)
	switch took {
	case yes:
		return p.DescribeTaken(pair, now, n), nil
	case no:
		return p.DecidePair(pair, now, n), nil
	default:
		return s.takeAbsent(p, hash, now, n)
	}
}

// look decides without taking.
func (s *Store) look(p *plan, hash uint64, now, n int64) (headgate.Decision, error) {
	if pair, found := s.read(hash, now); found {
		return p.DecidePair(pair, now, n), nil
	}
	sh := &s.shards[hash>>(64-shardBits)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := s.entry(hash); e != nil {
		return p.DecidePair(unpack(atomic.LoadUint64(&e.state), now), now, n), nil
	}
	if record := sh.wide.lookup(hash); record != nil {
		return p.Decide(stateOf(record), now, n), nil
	}
	return p.Decide(nil, now, n), nil
}

// read returns the pair of a key if it is found without a lock.
func (s *Store) read(hash uint64, now int64) (algorithm.Pair, bool) {
	e := s.entry(hash)
	if e == nil {
		return algorithm.Pair{}, false
	}
	word := atomic.LoadUint64(&e.state)
	if word&held != 0 || atomic.LoadUint64(&e.tag)>>lifeBits != tagOf(hash) {
		return algorithm.Pair{}, false
	}
	return unpack(word, now), true
}

// entry returns where the entry of a key is, or nil. Only with the shard's lock is it sure to stay there, and nil sure
// to mean that there is none.
func (s *Store) entry(hash uint64) *slot {
	d := s.dirs[hash>>(64-shardBits)].Load()
	if d == nil {
		return nil
	}
	return d.find(tagOf(hash))
}

// took tells how far a take without a lock came.
type took uint8

const (
	no took = iota
	yes
	absent // the key was not found; only the shard's lock holder can tell whether it is there
)

// takeCompact is the way of almost every decision: find the entry, decide, swap. It returns the pair after a take, or the
// pair that denied it.
func (s *Store) takeCompact(p *plan, hash uint64, now, n int64) (algorithm.Pair, took) {
	tag := tagOf(hash)
	for spins := 0; ; spins++ {
		e := s.entry(hash)
		if e == nil {
			return algorithm.Pair{}, absent
		}
		word := atomic.LoadUint64(&e.state)
		tagWord := atomic.LoadUint64(&e.tag)
		if word&held != 0 || tagWord>>lifeBits != tag {
			pause(spins)
			continue
		}
		pair, ok := p.TakePair(unpack(word, now), now, n)
		if !ok {
			if word&denied == 0 && !atomic.CompareAndSwapUint64(&e.state, word, word|denied) {
				continue
			}
			return pair, no
		}
		if uint8(tagWord) < p.life {
			atomic.CompareAndSwapUint64(&e.tag, tagWord, tagWord&^lifeMask|uint64(p.life))
			continue
		}
		if atomic.CompareAndSwapUint64(&e.state, word, pack(pair)) && atomic.LoadUint64(&e.tag)>>lifeBits == tag {
			return pair, yes
		}
	}
}

// pause lets the holder of an entry finish.
func pause(spins int) {
	if spins > 8 {
		runtime.Gosched()
	}
}

// takeAbsent takes for a key that takeCompact did not find.
func (s *Store) takeAbsent(p *plan, hash uint64, now, n int64) (headgate.Decision, error) {
	shardNo := uint8(hash >> (64 - shardBits))
	sh := &s.shards[shardNo]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.wide.lookup(hash) != nil {
		return s.stepWide(p, sh, hash, now, n)
	}
	// Nobody else can add, move or drop it now, so it is found if it is there.
	pair, took := s.takeCompact(p, hash, now, n)
	switch took {
	case yes:
		return p.DescribeTaken(pair, now, n), nil
	case no:
		return p.DecidePair(pair, now, n), nil
	}
	g, err := s.room(shardNo, tagOf(hash), now)
	if err != nil {
		s.refusals.Add(1)
		return headgate.Decision{}, err
	}
	pair, _ = p.TakePair(algorithm.Pair{}, now, n)
	g.add(tagOf(hash)<<lifeBits|uint64(p.life), pack(pair))
	return p.DescribeTaken(pair, now, n), nil
}

// newLease returns a name that nobody can guess, within the 53 bits that every store can keep.
func newLease() uint64 { return rand.Uint64()>>11 | 1 }
