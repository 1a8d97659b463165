package memstore

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// A stock has the memory of segments: empty ones made ready, and those that merging has left over. The first touch of new
// memory is a page fault, which takes longer than all the rest of a split; so a goroutine of the store takes it, and not
// the caller whose key is one too many. It makes segments by the chunk, which the system can back with large pages and
// the garbage collector sees as one object.
type stock struct {
	want chan struct{}

	mu       sync.Mutex
	few      int      // so many are few
	ready    []stored // touched, and counted as used memory
	released []*slot  // given back to the system; they are zero when they are touched again
}

// A stored is the memory of a segment in stock.
type stored struct {
	base *slot
	used bool // it was a segment's before
}

const (
	largeBytes = maxSlots * slotBytes
	minChunk   = 8 * largeBytes
	maxChunk   = 16 << 20

	// largePage is what a chunk of several of them is aligned to.
	largePage = 2 << 20
)

// newLargeSegment returns an empty segment of maxSlots slots, or nil if memory does not allow one.
func (s *Store) newLargeSegment(depth uint8) *segment {
	memory, few := s.stock.take()
	if few {
		select {
		case s.stock.want <- struct{}{}:
		default: // the keeper knows
		}
	}
	if memory.base == nil {
		if !s.reserveTable(largeBytes) {
			return nil
		}
		if memory = s.stock.reuse(); memory.base == nil {
			return newSegment(maxSlots, depth)
		}
	}
	return &segment{slots: unsafe.Slice(memory.base, maxSlots), depth: depth, seen: memory.used}
}

// take returns a segment's memory from those that are ready, and whether there are few.
func (t *stock) take() (memory stored, few bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.ready) - 1
	if last < 0 {
		return stored{}, true
	}
	memory, t.ready = t.ready[last], t.ready[:last]
	return memory, last <= t.few
}

// reuse returns memory that was released, if there is some.
func (t *stock) reuse() stored {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.released) - 1
	if last < 0 {
		return stored{}
	}
	base := t.released[last]
	t.released = t.released[:last]
	return stored{base: base, used: true}
}

// release gives the memory of a segment, which holds no entry any more, back to the system.
func (s *Store) release(g *segment) {
	s.budget.tables.Add(-g.bytes())
	if !forget(g.slots) {
		return // the garbage collector will
	}
	s.stock.mu.Lock()
	defer s.stock.mu.Unlock()
	s.stock.released = append(s.stock.released, g.base())
}

// keepStock makes segments ready whenever there are few, until the store is closed.
func (s *Store) keepStock() {
	defer s.running.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.stock.want:
			s.restock()
		}
	}
}

// restock makes a chunk of segments ready, of a size that is small beside what the tables take already.
func (s *Store) restock() {
	bytes := min(max(s.budget.tables.Load()/16, minChunk), maxChunk) / largeBytes * largeBytes
	for !s.reserveTable(bytes) {
		if bytes /= 2; bytes < largeBytes {
			return
		}
		bytes = bytes / largeBytes * largeBytes
	}
	var made []stored
	for ; bytes > 0; bytes -= largeBytes {
		memory := s.stock.reuse()
		if memory.base == nil {
			break
		}
		touch(unsafe.Slice(memory.base, maxSlots))
		made = append(made, memory)
	}
	if bytes > 0 {
		chunk := newChunk(int(bytes / slotBytes))
		touch(chunk)
		for i := 0; i < len(chunk); i += maxSlots {
			made = append(made, stored{base: &chunk[i]})
		}
	}
	s.stock.mu.Lock()
	defer s.stock.mu.Unlock()
	s.stock.ready = append(s.stock.ready, made...)
	s.stock.few = len(made) / 2
}

// newChunk returns so many slots, in large pages if they fill some. What lies before and behind is never touched.
func newChunk(slots int) []slot {
	if slots*slotBytes < 2*largePage {
		return make([]slot, slots)
	}
	room := make([]slot, slots+largePage/slotBytes)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(room))) % largePage / slotBytes
	chunk := room[skip:][:slots:slots]
	preferLargePages(chunk)
	return chunk
}

// touch lets the system back the memory of empty slots now.
func touch(slots []slot) {
	const pageSlots = 4096 / slotBytes
	for i := 0; i < len(slots); i += pageSlots {
		atomic.StoreUint64(&slots[i].tag, 0) // somebody may look at it still, see segment.seen
	}
}

// A scratch lends room for the entries that a split moves.
type scratch struct{ pool sync.Pool }

func (s *scratch) get() []slot {
	if lent, ok := s.pool.Get().(*[]slot); ok {
		return (*lent)[:0]
	}
	return make([]slot, 0, maxSlots)
}

func (s *scratch) put(room []slot) { s.pool.Put(&room) }
