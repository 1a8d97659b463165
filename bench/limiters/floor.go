package limiters

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/bench/harness"
)

// gcra is the arithmetic of the floors: the generic cell rate algorithm in nanoseconds since start.
type gcra struct {
	start     time.Time
	interval  int64
	tolerance int64
}

func newGCRA(q Quota) gcra {
	// The clock begins an hour before the start, so that the time 0 is long ago and can be the state of a new key.
	return gcra{
		start:     time.Now().Add(-time.Hour),
		interval:  int64(q.Interval()),
		tolerance: int64(q.Interval()) * int64(q.Count),
	}
}

func (g *gcra) now() int64 { return int64(time.Since(g.start)) }

// take decides on one word by compare-and-swap.
func (g *gcra) take(word *uint64, now int64) bool {
	for {
		old := atomic.LoadUint64(word)
		next := max(int64(old), now) + g.interval
		if next-now > g.tolerance {
			return false
		}
		if atomic.CompareAndSwapUint64(word, old, uint64(next)) {
			return true
		}
	}
}

// floorSingle has the minimum cost of one exact counter: a clock reading and a compare-and-swap.
type floorSingle struct {
	gcra
	_    [64]byte // the word is written by all; what is read shares no cache line with it
	word uint64
	_    [56]byte
}

func newFloorSingle(q Quota, _ int) (Limiter, error) { return &floorSingle{gcra: newGCRA(q)}, nil }

func (f *floorSingle) Allow(string) bool { return f.take(&f.word, f.now()) }

// floorTable has the minimum cost of an exact limiter with keys in an open-addressed table: one seeded hash, one probe
// into a flat table that never grows and never drops a key, one clock reading, and one compare-and-swap. Entry i
// consists of the words 2i, its hash, and 2i+1, its state.
type floorTable struct {
	gcra
	seed  maphash.Seed
	mask  uint64
	words []uint64
}

// floorLoad is how full the floor's table may be, in 1/64. Its size is the next power of two, so at the measured sizes
// it is between half and three quarters full.
const floorLoad = 48

// NewFloorTable returns a floor with room for the given number of keys.
func NewFloorTable(q Quota, keys int) (Limiter, error) {
	slots := uint64(1) << bits.Len64(uint64(max(keys, 16))*64/floorLoad)
	return &floorTable{gcra: newGCRA(q), seed: maphash.MakeSeed(), mask: slots - 1, words: make([]uint64, 2*slots)}, nil
}

// newFloorLargePages returns a floor whose table is in large pages if the system has them. Headgate requests them too.
func newFloorLargePages(q Quota, keys int) (Limiter, error) {
	c, err := NewFloorTable(q, keys)
	if err == nil {
		preferLargePages(c.(*floorTable).words)
	}
	return c, err
}

func (f *floorTable) Allow(key string) bool {
	hash := maphash.String(f.seed, key)
	if hash == 0 {
		hash = 1
	}
	now := f.now() // before the probe: reading the clock waits for loads under way, and the probe is the slow one
	for i := hash & f.mask; ; i = (i + 1) & f.mask {
		tag := &f.words[2*i]
		found := atomic.LoadUint64(tag)
		if found == 0 {
			if atomic.CompareAndSwapUint64(tag, 0, hash) {
				found = hash
			} else {
				found = atomic.LoadUint64(tag)
			}
		}
		if found == hash {
			return f.take(&f.words[2*i+1], now)
		}
	}
}

func (f *floorTable) Table() harness.TableSize {
	size := harness.TableSize{Bytes: int64(len(f.words)) * 8}
	for i := 0; i < len(f.words); i += 2 {
		if f.words[i] != 0 {
			size.Keys++
		}
	}
	return size
}
