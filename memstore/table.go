package memstore

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// A slot is one entry of a table: the tag of its key, and its state.
//
// Any goroutine may read it without a lock: tag first, then state, then the tag again. Any goroutine may swap the state
// of an entry that is not held. Only the holder of the shard's lock may set held, write a tag, or move an entry. (An
// entry that is claimed looks held to all other callers; see claim.go.) An entry is moved by holding it, writing it
// elsewhere, and freeing its tag. So a concurrent decision on the old slot fails to swap and looks again. It also fails
// if the slot has another key by then, even one with the same pair: a state is sealed with its key's tag, see word.go.
type slot struct {
	tag, state uint64
}

const (
	slotBytes = 16
	// fullIn64 is the fill level, in 1/64, at which a segment is split or swept. Beyond that, probes get long.
	fullIn64 = 54
	// maxFullIn64 is that level for a segment whose split would double its shard's directory. Otherwise the few
	// fullest segments would double all directories long before the others need it, and a directory that fits the
	// cache saves more than some probes cost.
	maxFullIn64 = 60
	minSlots    = 32
	maxSlots    = 512

	// keepDeadMicros is how long a key that has drained stays, unless memory is full. It is often used again soon, and
	// adding it again costs more than finding it.
	keepDeadMicros = 4_000_000
)

// A segment is an open-addressed table of those keys of a shard whose tags begin with the same depth bits.
type segment struct {
	slots  []slot
	used   int // number of slots that are not free
	depth  uint8
	reused bool // its memory belonged to another segment, so other goroutines may still read it
}

func newSegment(slots int, depth uint8) *segment {
	return &segment{slots: make([]slot, slots), depth: depth}
}

func (g *segment) base() *slot { return unsafe.SliceData(g.slots) }

// excess returns how many entries must be dropped before another one can be added; 0 or less if there is room. deepest
// is the depth of the directory.
func (g *segment) excess(deepest int) int {
	level := fullIn64
	if int(g.depth) == deepest && len(g.slots) == maxSlots {
		level = maxFullIn64
	}
	return g.used + 1 - len(g.slots)*level/64
}

func (g *segment) full(deepest int) bool { return g.excess(deepest) > 0 }

func (g *segment) bytes() int64 {
	return int64(len(g.slots)) * slotBytes
}

// A directory finds the segment of a tag by its first bits. Decisions need only the published half: where each
// segment's slots begin, and how many slots every segment has. Segments are smaller than maxSlots only while there is
// only one.
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

// slotAt returns the slot i of those that begin at base; i is below their number.
func slotAt(base *slot, i uint64) *slot {
	return (*slot)(unsafe.Add(unsafe.Pointer(base), i*slotBytes))
}

// probe returns the slot with a tag, among those that begin at base, or nil.
func probe(base *slot, mask, tag uint64) *slot {
	for i, probes := tag&mask, uint64(0); probes <= mask; i, probes = (i+1)&mask, probes+1 {
		e := slotAt(base, i)
		switch word := atomic.LoadUint64(&e.tag); {
		case word>>layoutBits == tag:
			return e
		case word == 0:
			return nil
		}
	}
	return nil
}

// add adds an entry to the segment, which must not be full.
func (g *segment) add(tagWord, state uint64) {
	g.free(tagWord>>layoutBits).assign(tagWord, state)
	g.used++
}

// assign gives a free slot to a key.
func (e *slot) assign(tagWord, state uint64) {
	atomic.StoreUint64(&e.state, state)
	atomic.StoreUint64(&e.tag, tagWord)
}

// free returns the first free slot in the probe sequence of a tag.
func (g *segment) free(tag uint64) *slot {
	mask := uint64(len(g.slots) - 1)
	for i := tag & mask; ; i = (i + 1) & mask {
		if e := &g.slots[i]; atomic.LoadUint64(&e.tag) == 0 {
			return e
		}
	}
}

// tidyOptions decide what happens to each entry when a segment is tidied.
type tidyOptions struct {
	layouts     *layouts
	ref, now    int64
	keepDead    int64  // how long dead entries stay, in µs
	moveBits    uint64 // entries with one of these tag bits move to another segment
	evictWithin int64  // entries with at most this time left, in µs, are evicted unless they were denied
	maxEvict    int    // maximum number of entries to evict

	evicted int
	moved   []slot // entries that move to another segment
}

// tidy visits every entry of the segment. It drops dead entries, appends those that move to another segment to s.moved,
// and moves the others to the first free slot of their probe sequence. It begins after a free slot, so that all slots
// before an entry are already tidied. The shard is locked.
func (g *segment) tidy(s *tidyOptions) {
	mask := uint64(len(g.slots) - 1)
	base := g.base()
	var first uint64
	for atomic.LoadUint64(&slotAt(base, first).tag) != 0 {
		first++
	}
	for k := uint64(1); k <= mask; k++ {
		i := (first + k) & mask
		e := slotAt(base, i)
		tagWord := atomic.LoadUint64(&e.tag)
		if tagWord == 0 {
			continue
		}
		tag := tagWord >> layoutBits
		if s.drops(e) {
			g.clear(e)
			continue
		}
		if tag&s.moveBits != 0 {
			state := e.hold() // from now on the layout stays as well
			s.moved = append(s.moved, slot{tag: atomic.LoadUint64(&e.tag), state: state})
			g.clear(e)
			continue
		}
		if to := freeUpTo(base, mask, tag, i); to != e {
			state := e.hold()
			to.assign(atomic.LoadUint64(&e.tag), state)
			atomic.StoreUint64(&e.tag, 0)
		}
	}
}

// fill adds entries to a segment that is not published yet. If no other goroutine can see the memory, it uses no atomic
// operations, so that writes do not wait for each other's cache lines.
func (g *segment) fill(entries []slot) {
	if g.reused {
		for _, entry := range entries {
			g.add(entry.tag, entry.state)
		}
		return
	}
	mask, base := uint64(len(g.slots)-1), g.base()
	for _, entry := range entries {
		i := entry.tag >> layoutBits & mask
		for slotAt(base, i).tag != 0 {
			i = (i + 1) & mask
		}
		e := slotAt(base, i)
		e.state = entry.state
		e.tag = entry.tag
	}
	g.used += len(entries)
}

// clear frees a slot. Its state stays held, for goroutines that still read it, until the slot gets another key.
func (g *segment) clear(e *slot) {
	atomic.StoreUint64(&e.tag, 0)
	g.used--
}

// freeUpTo returns the first slot in the probe sequence of a tag that is free or is slot i.
func freeUpTo(base *slot, mask, tag, i uint64) *slot {
	for j := tag & mask; ; j = (j + 1) & mask {
		if e := slotAt(base, j); j == i || atomic.LoadUint64(&e.tag) == 0 {
			return e
		}
	}
}

// hold sets held and returns the previous state. If the caller already holds the entry, that state is held, too.
func (e *slot) hold() uint64 {
	for {
		state := e.waitUnclaimed()
		if state&heldBit != 0 || atomic.CompareAndSwapUint64(&e.state, state, state|heldBit) {
			return state
		}
	}
}

// drops reports whether the entry is to be dropped, and if so holds it.
func (s *tidyOptions) drops(e *slot) bool {
	for {
		state := e.waitUnclaimed()
		tagWord := atomic.LoadUint64(&e.tag) // after the state, which is held while its layout changes
		if tagWord>>layoutBits == tombstone {
			return true
		}
		if state&heldBit != 0 {
			return false // held by this goroutine, for the current check
		}
		rest := s.layouts.timeLeft(tagWord, state, s.ref, s.now)
		evict := rest > 0 && rest <= s.evictWithin && state&deniedBit == 0 && s.evicted < s.maxEvict
		if rest > -s.keepDead && !evict {
			return false
		}
		if atomic.CompareAndSwapUint64(&e.state, state, state|heldBit) {
			if evict {
				s.evicted++
			}
			return true
		}
	}
}

// mostlyIdle reports whether at least an eighth of a sample of the entries has been dead for keepDeadMicros.
func (g *segment) mostlyIdle(t *layouts, now int64) bool {
	idle := 0
	for i := range min(64, len(g.slots)) {
		e := &g.slots[i]
		switch tagWord := atomic.LoadUint64(&e.tag); {
		case tagWord == 0:
		case tagWord>>layoutBits == tombstone, t.timeLeft(tagWord, atomic.LoadUint64(&e.state), now, now) <= -keepDeadMicros:
			idle++
		}
	}
	return idle*8 >= min(64, len(g.slots))
}

// A segmentSurvey counts the entries of a segment.
type segmentSurvey struct {
	dead  int   // entries whose state is like that of a new key
	idle  int   // dead entries that are unlikely to be used again
	stale bool  // some dead entries must be dropped soon, before their time is mistaken for a later one
	evict int64 // µs; enough evictable entries have at most this time left
}

func (g *segment) survey(t *layouts, ref, now int64, want int) segmentSurvey {
	var c segmentSurvey
	var byLength [65]int
	for i := range g.slots {
		e := &g.slots[i]
		tagWord := atomic.LoadUint64(&e.tag)
		if tagWord == 0 {
			continue
		}
		state := e.waitUnclaimed()
		if tagWord>>layoutBits == tombstone {
			c.dead++
			c.idle++
		} else if state&heldBit == 0 {
			if rest := t.timeLeft(tagWord, state, ref, now); rest <= 0 {
				c.dead++
				if rest <= -keepDeadMicros {
					c.idle++
				}
				c.stale = c.stale || rest < -maxDeath
			} else if state&deniedBit == 0 {
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
