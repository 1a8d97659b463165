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

// A shape is what clients have in common whose limits differ in their numbers alone.
type shape struct {
	limit      Limit       // without its Count
	bursts     bool        // and without its Burst
	as         *registered // what they have instead of a limit: nothing, everything or blocked; nil if they have one
	properties properties
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

// maxShapes is how many shapes are remembered. A limit of yet another is no short one. Half of them is for clients without properties:
// those of others may all be different.
const (
	maxShapes    = 4096
	maxDescribed = maxShapes / 2
)

// shapes are those of a registry's limits. They are never forgotten, so that a word can be read without asking whether it is
// still the same. Reading takes no lock; those who add take turns.
type shapes struct {
	list      atomic.Pointer[[]shape] // by number less one
	numbers   map[shape]uint64
	described int // how many are of clients with properties
}

// of returns the short limit of a word.
func (s *shapes) of(word uint64) short {
	return short{&(*s.list.Load())[word&numberMask-1], word}
}

// shorten returns the limit of a client with some properties in short. It is false if it cannot be.
func (s *shapes) shorten(l Limit, of properties) (short, bool) {
	as, count := shape{limit: l, properties: of}, uint64(l.Count)
	as.limit.Count = 0
	if l.Burst != 0 && l.Count <= burstMask && l.Burst <= burstMask {
		as.limit.Burst, as.bursts = 0, true
		count |= uint64(l.Burst) << burstBits
	}
	number, ok := s.number(as)
	if !ok {
		return short{}, false
	}
	return s.of(count<<numberBits | number), true
}

// describe returns a client in short that has no limit, but properties. There is no shape if it cannot be.
func (s *shapes) describe(as *registered, of properties) short {
	if of == "" {
		return short{}
	}
	number, ok := s.number(shape{as: as, properties: of})
	if !ok {
		return short{}
	}
	return s.of(number)
}

// number returns the number of a shape. It is false if it has none, and there is no room for it.
func (s *shapes) number(of shape) (uint64, bool) {
	number := s.numbers[of]
	if number != 0 {
		return number, true
	}
	if len(s.numbers) == maxShapes || of.properties != "" && s.described == maxDescribed {
		return 0, false
	}
	if of.properties != "" {
		s.described++
	}
	return s.add(of), true
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
