package memstore

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// A slot is one entry of a table: whose, and its state.
//
// Who reads: anyone, without a lock, tag first, then state, then the tag once more. Who writes: anyone may swap the
// state of an entry that is not held; only the holder of the shard's lock may set held, write a tag, or move an entry. (An
// entry that is claimed looks held to all but him; see claim.go.)
// An entry is moved by holding it, writing it elsewhere, and freeing its tag, so a decision that was under way on the
// old place fails to swap and looks again. It also fails if the place has a new owner meanwhile, even one whose pair is
// the very same: a state is sealed with its key's tag, see word.go.
type slot struct {
	tag, state uint64
}

const (
	slotBytes = 16
	// A segment is split or swept when it is this full, in 1/64; beyond that, probes get long.
	fullIn64 = 54
	// It may get so full if splitting it would double its shard's directory. Else the few fullest segments would double all
	// directories long before the others need it, and a directory that fits the cache is worth more than some probes.
	brimIn64 = 60
	minSlots = 32
	maxSlots = 512

	// A key that has drained will often be asked for again soon. It stays for so long, unless memory is full: adding it
	// again costs more than finding it.
	lingerMicros = 4_000_000
)

// A segment is an open-addressed table of a part of a shard's keys: those whose tags begin with the same depth bits.
type segment struct {
	slots []slot
	used  int // slots that are not free
	depth uint8
	seen  bool // its memory was another's before, and who has looked for a key there since then may look still
}

func newSegment(slots int, depth uint8) *segment {
	return &segment{slots: make([]slot, slots), depth: depth}
}

func (g *segment) base() *slot { return unsafe.SliceData(g.slots) }

// over returns by how many entries the segment is too full for another one, 0 or less if it is not; deepest is the depth
// of its directory.
func (g *segment) over(deepest int) int {
	most := fullIn64
	if int(g.depth) == deepest && len(g.slots) == maxSlots {
		most = brimIn64
	}
	return g.used + 1 - len(g.slots)*most/64
}

func (g *segment) full(deepest int) bool { return g.over(deepest) > 0 }

func (g *segment) bytes() int64 {
	return int64(len(g.slots)) * slotBytes
}

// A directory finds the segment of a tag by its first bits. Its first half, all that a decision needs, is what is
// published: where each segment's slots begin, and how many slots every segment has. Segments are smaller than
// maxSlots only while there is but one.
type directory struct {
	shift uint8  // tag >> shift is the segment's number
	mask  uint64 // slots of a segment − 1
	bases []atomic.Pointer[slot]

	segments []*segment // for holders of the shard's lock
}

func newDirectory(depth uint8, slots int) *directory {
	return &directory{
		shift:    64 - layoutBits - depth,
		mask:     uint64(slots - 1),
		bases:    make([]atomic.Pointer[slot], 1<<depth),
		segments: make([]*segment, 1<<depth),
	}
}

func (d *directory) set(i int, g *segment) {
	d.segments[i] = g
	d.bases[i].Store(g.base())
}

func (d *directory) bytes() int64 { return int64(len(d.bases)) * 16 }

// at returns the slot i of those that begin at base; i is below their number.
func at(base *slot, i uint64) *slot {
	return (*slot)(unsafe.Add(unsafe.Pointer(base), i*slotBytes))
}

// probe returns the slot of those that begin at base that holds tag, or nil.
func probe(base *slot, mask, tag uint64) *slot {
	for i, probes := tag&mask, uint64(0); probes <= mask; i, probes = (i+1)&mask, probes+1 {
		e := at(base, i)
		switch word := atomic.LoadUint64(&e.tag); {
		case word>>layoutBits == tag:
			return e
		case word == 0:
			return nil
		}
	}
	return nil
}

// add puts a new entry into the segment, which must not be full.
func (g *segment) add(tagWord, state uint64) {
	g.free(tagWord>>layoutBits).own(tagWord, state)
	g.used++
}

// own gives a free slot to a new owner.
func (e *slot) own(tagWord, state uint64) {
	atomic.StoreUint64(&e.state, state)
	atomic.StoreUint64(&e.tag, tagWord)
}

// free returns the first free slot for a tag.
func (g *segment) free(tag uint64) *slot {
	mask := uint64(len(g.slots) - 1)
	for i := tag & mask; ; i = (i + 1) & mask {
		if e := &g.slots[i]; atomic.LoadUint64(&e.tag) == 0 {
			return e
		}
	}
}

// A sieve decides what happens to each entry when a segment is tidied.
type sieve struct {
	layouts  *layouts
	ref, now int64
	linger   int64  // how long, in µs, entries stay after they died
	bit      uint64 // of the tag: entries that have it go elsewhere
	evict    int64  // entries with at most this left are dropped, unless they are denied
	evicting int    // how many may be evicted

	evicted int
	moved   []slot // those that go elsewhere
}

// tidy goes once around the segment: dead entries are dropped, those that the sieve sends elsewhere are handed to it, and
// those that stay move up to where a probe finds them soonest. It begins behind a free slot, so that every entry
// meets only places that are final. Only the shard's lock holder may call it.
func (g *segment) tidy(s *sieve) {
	mask := uint64(len(g.slots) - 1)
	base := g.base()
	var first uint64
	for atomic.LoadUint64(&at(base, first).tag) != 0 {
		first++
	}
	for k := uint64(1); k <= mask; k++ {
		i := (first + k) & mask
		e := at(base, i)
		tagWord := atomic.LoadUint64(&e.tag)
		if tagWord == 0 {
			continue
		}
		tag := tagWord >> layoutBits
		if s.drops(e) {
			g.clear(e)
			continue
		}
		if tag&s.bit != 0 {
			state := e.hold() // from now on the layout stays as well
			s.moved = append(s.moved, slot{tag: atomic.LoadUint64(&e.tag), state: state})
			g.clear(e)
			continue
		}
		if to := freeUpTo(base, mask, tag, i); to != e {
			state := e.hold()
			to.own(atomic.LoadUint64(&e.tag), state)
			atomic.StoreUint64(&e.tag, 0)
		}
	}
}

// fill puts entries into a segment that is not published yet. No atomic operation comes between one write and the next,
// so that they need not wait for each other's cache lines; unless somebody may see them, who must not see an entry without
// its state.
func (g *segment) fill(entries []slot) {
	if g.seen {
		for _, entry := range entries {
			g.add(entry.tag, entry.state)
		}
		return
	}
	mask, base := uint64(len(g.slots)-1), g.base()
	for _, entry := range entries {
		i := entry.tag >> layoutBits & mask
		for at(base, i).tag != 0 {
			i = (i + 1) & mask
		}
		e := at(base, i)
		e.state = entry.state
		e.tag = entry.tag
	}
	g.used += len(entries)
}

// clear frees a slot. Its state stays held for those that still look at it, until it gets a new owner.
func (g *segment) clear(e *slot) {
	atomic.StoreUint64(&e.tag, 0)
	g.used--
}

// freeUpTo returns the first slot for a tag that is free or is slot i.
func freeUpTo(base *slot, mask, tag, i uint64) *slot {
	for j := tag & mask; ; j = (j + 1) & mask {
		if e := at(base, j); j == i || atomic.LoadUint64(&e.tag) == 0 {
			return e
		}
	}
}

// hold sets held and returns the state as it was. An entry that the same lock holder holds already stays held in what is
// returned.
func (e *slot) hold() uint64 {
	for {
		state := e.unclaimed()
		if state&held != 0 || atomic.CompareAndSwapUint64(&e.state, state, state|held) {
			return state
		}
	}
}

// drops reports whether the entry is to be forgotten, and if so has held it.
func (s *sieve) drops(e *slot) bool {
	for {
		state := e.unclaimed()
		tagWord := atomic.LoadUint64(&e.tag) // after the state, which is held while its layout changes
		if tagWord>>layoutBits == gone {
			return true
		}
		if state&held != 0 {
			return false // by ourselves, for the check under way
		}
		rest := s.layouts.left(tagWord, state, s.ref, s.now)
		evict := rest > 0 && rest <= s.evict && state&denied == 0 && s.evicted < s.evicting
		if rest > -s.linger && !evict {
			return false
		}
		if atomic.CompareAndSwapUint64(&e.state, state, state|held) {
			if evict {
				s.evicted++
			}
			return true
		}
	}
}

// idles tells, by a sample, whether so many entries have been dead for long that dropping them is worth it.
func (g *segment) idles(t *layouts, now int64) bool {
	idle := 0
	for i := range min(64, len(g.slots)) {
		e := &g.slots[i]
		switch tagWord := atomic.LoadUint64(&e.tag); {
		case tagWord == 0:
		case tagWord>>layoutBits == gone, t.left(tagWord, atomic.LoadUint64(&e.state), now, now) <= -lingerMicros:
			idle++
		}
	}
	return idle*8 >= min(64, len(g.slots))
}

// A census is what is in a segment.
type census struct {
	dead  int   // entries that are as good as none
	idle  int   // those of them that have been for so long that they will hardly be asked for again
	stale bool  // some of them are so old that they must be dropped soon, or their time will be taken for a later one
	evict int64 // at least as many as were wanted have no more than this left, of those that may be evicted
}

func (g *segment) survey(t *layouts, ref, now int64, want int) census {
	var c census
	var byLength [65]int
	for i := range g.slots {
		e := &g.slots[i]
		tagWord := atomic.LoadUint64(&e.tag)
		if tagWord == 0 {
			continue
		}
		state := e.unclaimed()
		if tagWord>>layoutBits == gone {
			c.dead++
			c.idle++
		} else if state&held == 0 {
			if rest := t.left(tagWord, state, ref, now); rest <= 0 {
				c.dead++
				if rest <= -lingerMicros {
					c.idle++
				}
				c.stale = c.stale || rest < -maxDeath
			} else if state&denied == 0 {
				byLength[bits.Len64(uint64(rest))]++
			}
		}
	}
	for length, n := range byLength {
		if n == 0 {
			continue
		}
		c.evict = int64(1)<<length - 1
		if want -= n; want <= 0 {
			break
		}
	}
	return c
}
