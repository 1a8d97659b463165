package memstore

import "sync"

// A stock keeps empty segments ready. The first touch of new memory is a page fault, which takes longer than all the rest
// of a split; so a goroutine of the store takes it, and not the caller whose key is one too many.
type stock struct {
	ready chan []slot
	want  chan struct{}
}

// stocked is how many segments are kept ready, once the first was asked for.
const stocked = 32

func newStock() stock {
	return stock{ready: make(chan []slot, stocked), want: make(chan struct{}, 1)}
}

// newLargeSegment returns an empty segment of maxSlots slots, or nil if memory does not allow one.
func (s *Store) newLargeSegment(depth uint8) *segment {
	select {
	case s.stock.want <- struct{}{}:
	default: // the keeper knows
	}
	select {
	case slots := <-s.stock.ready:
		return &segment{slots: slots, depth: depth}
	default:
	}
	if !s.reserveTable(maxSlots * slotBytes) {
		return nil
	}
	return newSegment(maxSlots, depth)
}

// keepStock fills the stock whenever something was taken, until the store is closed.
func (s *Store) keepStock() {
	defer s.running.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.stock.want:
		}
		for len(s.stock.ready) < stocked && s.reserveTable(maxSlots*slotBytes) {
			slots := make([]slot, maxSlots)
			const pageSlots = 4096 / slotBytes
			for i := 0; i < len(slots); i += pageSlots {
				slots[i] = slot{}
			}
			s.stock.ready <- slots // only the keeper adds, so there is room
		}
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
