package rules

import (
	"sync/atomic"
	"unique"
)

// A short is a limit in one word: the number of its shape, and what it counts up to. Most clients have nothing else, and then
// all that there is to know of one stands where it is found.
//
//	bits 0–15   the number of the shape
//	bits 16–63  Count; if the shape leaves out Burst, only up to bit 39, and Burst above
type short struct {
	shape *shape // nil if there is none
	word  uint64
}

// A shape is what limits have in common that differ in their numbers alone.
type shape struct {
	limit  Limit // without its Count
	bursts bool  // and without its Burst
}

const (
	numberBits = 16
	numberMask = 1<<numberBits - 1
	burstBits  = 24
	burstMask  = 1<<burstBits - 1
)

// to writes the limit down.
func (s short) to(l *Limit) {
	*l = s.shape.limit
	if l.Count = int64(s.word >> numberBits); s.shape.bursts {
		l.Burst = l.Count >> burstBits
		l.Count &= burstMask
	}
}

// maxShapes is how many shapes are remembered. A limit of yet another is no short one.
const maxShapes = 4096

// shapes are those of a registry's limits. They are never forgotten, so that a word can be read without asking whether it is
// still the same. Reading takes no lock; those who add take turns.
type shapes struct {
	list    atomic.Pointer[[]shape] // by number less one
	numbers map[shape]uint64
}

// of returns the short limit of a word.
func (s *shapes) of(word uint64) short {
	return short{&(*s.list.Load())[word&numberMask-1], word}
}

// shorten returns a limit in short. It is false if it cannot be.
func (s *shapes) shorten(l Limit) (short, bool) {
	as, count := shape{limit: l}, uint64(l.Count)
	as.limit.Count = 0
	if l.Burst != 0 && l.Count <= burstMask && l.Burst <= burstMask {
		as.limit.Burst, as.bursts = 0, true
		count |= uint64(l.Burst) << burstBits
	}
	number := s.numbers[as]
	if number == 0 {
		if len(s.numbers) == maxShapes {
			return short{}, false
		}
		number = s.add(as)
	}
	return s.of(count<<numberBits | number), true
}

// add adds a shape and returns its number.
func (s *shapes) add(as shape) uint64 {
	as.limit.Name = unique.Make(as.limit.Name).Value()
	var list []shape
	if old := s.list.Load(); old != nil {
		list = *old
	} else {
		s.numbers = map[shape]uint64{}
	}
	list = append(list, as) // who reads an older one does not see as far
	s.list.Store(&list)
	number := uint64(len(list))
	s.numbers[as] = number
	return number
}
