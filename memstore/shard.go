package memstore

import (
	"sync"
	"time"

	"github.com/headgate/headgate"
)

const shardBits = 8

// A shard has the keys whose hashes begin with its number. Its lock protects the records, and is needed to add, move or
// drop entries. A decision on an existing entry needs no lock.
type shard struct {
	mu      sync.Mutex
	records records

	// swept is the latest time at which a dead key was dropped. A new key does not start before that time. So the time of
	// a key that was dropped and added again does not go back.
	swept int64
	_     [64]byte // so that the locks of two shards are not in one cache line
}

// setSwept records a sweep of the shard at now.
func (sh *shard) setSwept(now int64) { sh.swept = max(sh.swept, now) }

// setStart moves the time of an operation that adds a key to the latest sweep, if it is earlier.
func (sh *shard) setStart(op *operation) { op.now = max(op.now, sh.swept-op.lag) }

// segmentWithRoom returns a segment with a free slot for the key. If necessary it grows the table, sweeps or evicts.
// The shard is locked.
func (s *Store) segmentWithRoom(op *operation) (*segment, error) {
	number, tag, now := op.shard(), op.tag(), op.storeTime()
	for {
		d := s.dirs[number].Load()
		if d == nil {
			if !s.reserveTable(minSlots * slotBytes) {
				return nil, headgate.ErrFull
			}
			d = newDirectory(0, minSlots)
			d.set(0, newSegment(minSlots, 0))
			s.dirs[number].Store(d)
		}
		g := d.segments[tag>>d.shift]
		if !g.full(d.depth()) {
			s.shards[number].setStart(op)
			return g, nil
		}
		s.shards[number].setSwept(now)
		start := time.Now()
		err := s.makeRoom(number, d, g, tag, now)
		s.stopwatch.stop(start)
		if err != nil {
			return nil, err
		}
	}
}

// makeRoom makes room in a full segment. It drops dead entries if there are many. Otherwise it grows the table. If
// memory does not allow that, it evicts the entries that would be dead soonest, but no keys that were denied since they
// last drained. It returns headgate.ErrFull if there are only such keys.
func (s *Store) makeRoom(number uint8, d *directory, g *segment, tag uint64, now int64) error {
	if g.mostlyIdle(&s.layouts, now) {
		if g.tidy(&tidyOptions{layouts: &s.layouts, ref: now, now: now, keepDead: keepDeadMicros}); !g.full(d.depth()) {
			return nil
		}
	}
	if s.grow(number, d, g, tag, now) {
		return nil
	}
	batch := max(g.excess(d.depth()), len(g.slots)/32)
	found := g.survey(&s.layouts, now, now, batch)
	tidying := tidyOptions{
		layouts: &s.layouts, ref: now, now: now, evictWithin: found.evict, maxEvict: max(0, batch-found.dead),
	}
	g.tidy(&tidying)
	s.evictions.Add(int64(tidying.evicted))
	if g.full(d.depth()) {
		return headgate.ErrFull
	}
	return nil
}

// grow doubles a small segment or splits a large one. It returns false if there is no memory for it.
func (s *Store) grow(number uint8, d *directory, g *segment, tag uint64, now int64) bool {
	tidying := tidyOptions{layouts: &s.layouts, ref: now, now: now, keepDead: keepDeadMicros, moved: s.scratch.get()}
	defer func() { s.scratch.put(tidying.moved) }()
	if len(g.slots) < maxSlots {
		return s.double(number, g, &tidying)
	}
	return s.split(number, d, g, tag, &tidying)
}

// double moves the entries of the only segment of a shard to one of twice the size.
func (s *Store) double(number uint8, g *segment, tidying *tidyOptions) bool {
	if !s.reserveTable(g.bytes()) {
		return false
	}
	tidying.moveBits = ^uint64(0)
	g.tidy(tidying)
	larger := newSegment(2*len(g.slots), 0)
	larger.fill(tidying.moved)
	grown := newDirectory(0, len(larger.slots))
	grown.set(0, larger)
	s.dirs[number].Store(grown)
	return true
}

// split moves half of the entries of a segment to a new segment. It doubles the directory if the segment has only one
// index in it.
func (s *Store) split(number uint8, d *directory, g *segment, tag uint64, tidying *tidyOptions) bool {
	deeper := int(g.depth) == d.depth()
	if deeper && !s.reserveTable(d.bytes()) {
		return false
	}
	other := s.newLargeSegment(g.depth + 1)
	if other == nil {
		if deeper {
			s.budget.Tables.Add(-d.bytes())
		}
		return false
	}
	tidying.moveBits = 1 << (64 - layoutBits - 1 - g.depth)
	g.tidy(tidying)
	g.depth++
	other.fill(tidying.moved)
	if deeper {
		doubled := newDirectory(g.depth, maxSlots)
		for i := range doubled.segments {
			doubled.set(i, d.segments[i/2])
		}
		doubled.set(int(tag>>doubled.shift)|1, other)
		s.dirs[number].Store(doubled)
		return true
	}
	// The segment's indexes in the directory share its first depth bits. Those with the next bit set now lead to the
	// other segment.
	span := d.span(g)
	from := (int(tag>>d.shift)/(2*span))*2*span + span
	for i := from; i < from+span; i++ {
		d.set(i, other)
	}
	return true
}

// merge undoes the split of the segment at i, if both halves have become so empty that the result is not split again
// soon. The shard is locked.
func (s *Store) merge(d *directory, i int, now int64) {
	g := d.segments[i]
	if g.depth == 0 {
		return
	}
	span := d.span(g)
	first := i / span * span
	other := d.segments[first^span]
	if other.depth != g.depth || (g.used+other.used)*2 > len(g.slots) {
		return
	}
	tidying := tidyOptions{
		layouts: &s.layouts, ref: now, now: now, keepDead: keepDeadMicros, moveBits: ^uint64(0),
		moved: s.scratch.get(),
	}
	other.tidy(&tidying)
	for _, entry := range tidying.moved {
		g.add(entry.tag, entry.state)
	}
	s.scratch.put(tidying.moved)
	g.depth--
	for j := first ^ span; j < first^span+span; j++ {
		d.set(j, g)
	}
	s.release(other)
}

// depth returns how many bits of a tag are an index in the directory.
func (d *directory) depth() int { return 64 - layoutBits - int(d.shift) }

// span returns the number of adjacent indexes in the directory that lead to a segment.
func (d *directory) span(g *segment) int { return 1 << (d.depth() - int(g.depth)) }

func (s *Store) reserveTable(bytes int64) bool { return s.budget.Reserve(&s.budget.Tables, bytes) }
