package memstore

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// A slot has one entry of a table: the tag word of its key, and its state word. The bits of both words are explained in
// word.go.
//
// Any goroutine may read a slot without a lock: tag first, then state, then the tag again. Any goroutine may swap the
// state if its held bit is not set. Only the holder of the shard's lock may set the held bit, write a tag, or move an
// entry. (A call of TakeAll without locks sets it too, with the claimed bit: see claim.go.)
//
// To move an entry, the holder of the lock sets its held bit, writes it to another slot, and frees its tag. So the swap
// of a concurrent decision on the old slot fails, and the decision looks for the entry again. The swap also fails if
// the slot has another key by then, even if both keys have the same pair, because each state is sealed with the key's
// tag.
type slot struct {
	tag, state uint64
}

const (
	slotBytes = 16
	// fullIn64 is the fill level, in 1/64, at which a segment is split or swept. At higher levels, probes get long.
	fullIn64 = 54
	// maxFullIn64 is the fill level for a segment whose split would double its shard's directory. It is higher, because
	// otherwise the few fullest segments would double all directories long before the other segments need it. Some
	// longer probes cost less than directories that do not fit in the CPU's cache.
	maxFullIn64 = 60
	minSlots    = 32
	maxSlots    = 512

	// keepDeadMicros is how long a dead key stays, unless memory is full. It is often used again soon, and adding a key
	// costs more than finding it.
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

// excess returns how many entries must be dropped before another one can be added. It is 0 or less if there is room.
// deepest is the depth of the directory, which is the maximum depth of its segments.
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

// A directory finds the segment of a tag by the first bits of the tag. All its segments have the same number of slots.
// That is maxSlots, unless there is only one segment. Goroutines without the shard's lock use only shift, mask and
// bases.
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

// slotAt returns slot i of the slots that begin at base. It does not check bounds.
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
	g.firstFree(tagWord>>layoutBits).assign(tagWord, state)
	g.used++
}

// assign gives a free slot to a key.
func (e *slot) assign(tagWord, state uint64) {
	atomic.StoreUint64(&e.state, state)
	atomic.StoreUint64(&e.tag, tagWord)
}

// firstFree returns the first free slot in the probe sequence of a tag.
func (g *segment) firstFree(tag uint64) *slot {
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

	// The results.
	evicted int
	moved   []slot // entries that move to another segment
}

// tidy visits every entry of the segment. It drops dead entries, appends entries for another segment to o.moved, and
// moves the others to the first free slot of their probe sequence. It begins after a free slot: no probe sequence
// crosses that slot, so all slots in front of an entry are already tidied. The shard is locked.
func (g *segment) tidy(o *tidyOptions) {
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
		if o.holdToDrop(e) {
			g.clear(e)
			continue
		}
		if tag&o.moveBits != 0 {
			state := e.hold() // before the tag is read, because the layout in the tag is stable only while the entry is held
			o.moved = append(o.moved, slot{tag: atomic.LoadUint64(&e.tag), state: state})
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

// fill adds entries to a segment that is not published yet. It uses atomic operations only if the memory belonged to
// another segment, so that other goroutines may still read it. Plain writes are faster.
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

// clear frees a slot. The held bit stays set until the slot gets another key, because other goroutines may still read
// the state.
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

// hold sets the held bit and returns the previous state, which has the bit too if the caller already holds the entry.
func (e *slot) hold() uint64 {
	for {
		state := e.waitUnclaimed()
		if state&heldBit != 0 || atomic.CompareAndSwapUint64(&e.state, state, state|heldBit) {
			return state
		}
	}
}

// holdToDrop reports whether the entry is dropped. If so, it holds the entry.
func (o *tidyOptions) holdToDrop(e *slot) bool {
	for {
		state := e.waitUnclaimed()
		tagWord := atomic.LoadUint64(&e.tag) // after the state, which is held while its layout changes
		if tagWord>>layoutBits == tombstone {
			return true
		}
		if state&heldBit != 0 {
			return false // held by this goroutine, for the current check
		}
		timeLeft := o.layouts.timeLeft(tagWord, state, o.ref, o.now)
		evict := timeLeft > 0 && timeLeft <= o.evictWithin && state&deniedBit == 0 && o.evicted < o.maxEvict
		if timeLeft > -o.keepDead && !evict {
			return false
		}
		if atomic.CompareAndSwapUint64(&e.state, state, state|heldBit) {
			if evict {
				o.evicted++
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
	evict int64 // a time in µs: the wanted number of evictable entries have at most this time left, if there are so many
}

// survey counts the entries of the segment. want is the number of entries that the caller may have to evict.
func (g *segment) survey(t *layouts, ref, now int64, want int) segmentSurvey {
	var c segmentSurvey
	var byLength [65]int // how many evictable entries have a time left whose binary number has this many digits
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
			if timeLeft := t.timeLeft(tagWord, state, ref, now); timeLeft <= 0 {
				c.dead++
				if timeLeft <= -keepDeadMicros {
					c.idle++
				}
				c.stale = c.stale || timeLeft < -maxDeath
			} else if state&deniedBit == 0 {
				byLength[bits.Len64(uint64(timeLeft))]++
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
