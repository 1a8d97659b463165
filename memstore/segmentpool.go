package memstore

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/headgate/headgate/internal/pages"
)

// A segmentPool has the memory of unused segments. The first access to new memory causes a page fault, which takes
// longer than the rest of a split. So that the caller whose key causes a split does not have to wait for it, a
// goroutine of the store makes that access in advance. It allocates several segments at once: the system can back them
// with large pages, and they are one object for the garbage collector.
type segmentPool struct {
	refill chan struct{}

	mu       sync.Mutex
	low      int             // more segments are prepared when only this number is ready
	ready    []segmentMemory // backed by the system, and counted as used memory
	released []*slot         // returned to the system; zero when accessed again
}

// A segmentMemory is the memory of one segment.
type segmentMemory struct {
	base *slot
	used bool // the memory was part of a segment before
}

const (
	largeBytes = maxSlots * slotBytes
	minChunk   = 8 * largeBytes
	maxChunk   = 16 << 20

	// largePage is the size of the system's large pages. A chunk of at least two large pages is aligned to it.
	largePage = 2 << 20
)

// newLargeSegment returns an empty segment of maxSlots slots, or nil if memory does not allow one.
func (s *Store) newLargeSegment(depth uint8) *segment {
	mem, few := s.segmentPool.take()
	if few {
		select {
		case s.segmentPool.refill <- struct{}{}:
		default: // refillSegmentPool was woken already
		}
	}
	if mem.base == nil {
		if !s.reserveTable(largeBytes) {
			return nil
		}
		if mem = s.segmentPool.reuse(); mem.base == nil {
			return newSegment(maxSlots, depth)
		}
	}
	return &segment{slots: unsafe.Slice(mem.base, maxSlots), depth: depth, reused: mem.used}
}

// take returns the prepared memory of a segment, and reports whether only few prepared segments are left.
func (t *segmentPool) take() (mem segmentMemory, few bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.ready) - 1
	if last < 0 {
		return segmentMemory{}, true
	}
	mem, t.ready = t.ready[last], t.ready[:last]
	return mem, last <= t.low
}

// reuse returns released memory, if there is any.
func (t *segmentPool) reuse() segmentMemory {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.released) - 1
	if last < 0 {
		return segmentMemory{}
	}
	base := t.released[last]
	t.released = t.released[:last]
	return segmentMemory{base: base, used: true}
}

// release returns the memory of an unused segment to the system.
func (s *Store) release(g *segment) {
	s.budget.Tables.Add(-g.bytes())
	if !pages.Return(g.slots) {
		return // the garbage collector frees it
	}
	s.segmentPool.mu.Lock()
	defer s.segmentPool.mu.Unlock()
	s.segmentPool.released = append(s.segmentPool.released, g.base())
}

// refillSegmentPool prepares segments whenever few are left, until the store is closed.
func (s *Store) refillSegmentPool() {
	defer s.running.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.segmentPool.refill:
			s.prepareSegments()
		}
	}
}

// prepareSegments adds segments to the pool: a sixteenth of the size of all tables, within limits, or less if memory
// does not allow that.
func (s *Store) prepareSegments() {
	bytes := min(max(s.budget.Tables.Load()/16, minChunk), maxChunk) / largeBytes * largeBytes
	for !s.reserveTable(bytes) {
		if bytes /= 2; bytes < largeBytes {
			return
		}
		bytes = bytes / largeBytes * largeBytes
	}
	var prepared []segmentMemory
	for ; bytes > 0; bytes -= largeBytes {
		mem := s.segmentPool.reuse()
		if mem.base == nil {
			break
		}
		touch(unsafe.Slice(mem.base, maxSlots))
		prepared = append(prepared, mem)
	}
	if bytes > 0 {
		chunk := newChunk(int(bytes / slotBytes))
		touch(chunk)
		for i := 0; i < len(chunk); i += maxSlots {
			prepared = append(prepared, segmentMemory{base: &chunk[i]})
		}
	}
	s.segmentPool.mu.Lock()
	defer s.segmentPool.mu.Unlock()
	s.segmentPool.ready = append(s.segmentPool.ready, prepared...)
	s.segmentPool.low = len(prepared) / 2
}

// newChunk allocates slots, in large pages if there are enough slots. The unused memory before and after them is never
// touched, so the system does not back it.
func newChunk(slots int) []slot {
	if slots*slotBytes < 2*largePage {
		return make([]slot, slots)
	}
	room := make([]slot, slots+largePage/slotBytes)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(room))) % largePage / slotBytes
	chunk := room[skip:][:slots:slots]
	pages.PreferLarge(chunk)
	return chunk
}

// touch makes the system back the memory of empty slots.
func touch(slots []slot) {
	const pageSlots = 4096 / slotBytes
	for i := 0; i < len(slots); i += pageSlots {
		atomic.StoreUint64(&slots[i].tag, 0) // other goroutines may still read it, see segment.reused
	}
}

// A scratch is a buffer for the entries that a split moves.
type scratch struct{ pool sync.Pool }

func (s *scratch) get() []slot {
	if buffer, ok := s.pool.Get().(*[]slot); ok {
		return (*buffer)[:0]
	}
	return make([]slot, 0, maxSlots)
}

func (s *scratch) put(buffer []slot) { s.pool.Put(&buffer) }
