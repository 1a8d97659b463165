package registry

import (
	"sync/atomic"
	"unique"

	"github.com/headgate/headgate/rules"
)

// A packedLimit is a limit in one word: the number of its shape, and its count. Most clients have nothing else, so that
// a lookup reads only the cell.
//
//	bits 0–15   the number of the shape
//	bits 16–63  Count; if the shape leaves out Burst, only up to bit 39, and Burst above
type packedLimit struct {
	shape *limitShape // nil if there is no limit
	word  uint64
}

// A limitShape is the common part of clients whose limits differ only in their numbers.
type limitShape struct {
	limit      rules.Limit    // without its Count
	hasBurst   bool           // also without its Burst
	details    *clientDetails // the details of clients without a limit: noGrants, unlimitedGrants or blockGrants; else nil
	properties properties
}

const (
	numberBits = 16
	numberMask = 1<<numberBits - 1
	burstBits  = 24
	burstMask  = 1<<burstBits - 1
)

// unpack writes the limit to l.
func (s packedLimit) unpack(l *rules.Limit) {
	*l = s.shape.limit
	if l.Count = int64(s.word >> numberBits); s.shape.hasBurst {
		l.Burst = l.Count >> burstBits
		l.Count &= burstMask
	}
}

// maxShapes limits the number of shapes; a limit with another shape is not packed. Half of them are reserved for
// clients without properties, because each client may have different properties.
const (
	maxShapes               = 4096
	maxShapesWithProperties = maxShapes / 2
)

// A shapeTable holds the shapes of a registry. Shapes are never removed, so that a word stays readable. Reads take no
// lock; writers must hold one.
type shapeTable struct {
	list           atomic.Pointer[[]limitShape] // by number minus one
	numbers        map[limitShape]uint64
	withProperties int // number of shapes with properties
}

// of returns the packed limit of a word.
func (s *shapeTable) of(word uint64) packedLimit {
	return packedLimit{&(*s.list.Load())[word&numberMask-1], word}
}

// pack returns the packed limit of a client with some properties. It returns false if that is impossible.
func (s *shapeTable) pack(l rules.Limit, of properties) (packedLimit, bool) {
	as, count := limitShape{limit: l, properties: of}, uint64(l.Count)
	as.limit.Count = 0
	if l.Burst != 0 && l.Count <= burstMask && l.Burst <= burstMask {
		as.limit.Burst, as.hasBurst = 0, true
		count |= uint64(l.Burst) << burstBits
	}
	number, ok := s.number(as)
	if !ok {
		return packedLimit{}, false
	}
	return s.of(count<<numberBits | number), true
}

// packProperties returns the packed form of a client that has no limit, but properties. Its shape is nil if that is
// impossible.
func (s *shapeTable) packProperties(as *clientDetails, of properties) packedLimit {
	if of == "" {
		return packedLimit{}
	}
	number, ok := s.number(limitShape{details: as, properties: of})
	if !ok {
		return packedLimit{}
	}
	return s.of(number)
}

// number returns the number of a shape. It returns false if the shape is new and the table is full.
func (s *shapeTable) number(of limitShape) (uint64, bool) {
	number := s.numbers[of]
	if number != 0 {
		return number, true
	}
	if len(s.numbers) == maxShapes || of.properties != "" && s.withProperties == maxShapesWithProperties {
		return 0, false
	}
	if of.properties != "" {
		s.withProperties++
	}
	return s.add(of), true
}

// add adds a shape and returns its number.
func (s *shapeTable) add(as limitShape) uint64 {
	as.limit.Name = unique.Make(as.limit.Name).Value()
	var list []limitShape
	if old := s.list.Load(); old != nil {
		list = *old
	} else {
		s.numbers = map[limitShape]uint64{}
	}
	list = append(list, as) // readers of the old list do not see the new element
	s.list.Store(&list)
	number := uint64(len(list))
	s.numbers[as] = number
	return number
}
