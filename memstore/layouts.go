package memstore

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// layouts has the layouts of a store's entries, by id. Each entry has the id of its layout, so the store knows how to
// read it even after the limit of the key has changed.
//
// There is room for 4095 layouts. If a limit gets no layout, or its states do not fit a state word, its keys have
// records. Brief limits, which refill within briefTime, are an exception: without a layout of their own, they share the
// id briefID. Consumption under that id is not converted when the limit of a key changes.
type layouts struct {
	byID [1 << layoutBits]atomic.Pointer[layoutPlan]
}

// A layoutPlan is a layout and the first plan that used it.
type layoutPlan struct {
	layout
	plan algorithm.Plan
}

const (
	briefID = 0 // the id of brief limits that have no layout of their own
	// layoutProbes is how many ids are tried for a layout.
	layoutProbes = 16
	// briefTime is the longest time in which a brief limit refills, and the longest period of its rate.
	briefTime = 100 * time.Millisecond
	// layoutSalt is multiplied by an id to get a salt that differs in many of the sealed bits of a state word.
	layoutSalt = 0x9E3779B97F4A7C15
	sealedMask = 1<<(fieldBits+timeBits) - 1
)

// briefLayout is the layout of all brief limits without a layout of their own.
var briefLayout = func() layout {
	l := layout{id: briefID, life: windowBit | lifeFor(4*briefTime.Microseconds())}
	l.set(fieldBits, noGrain)
	return l
}()

// assign returns the layout of a plan. It returns false if the keys of the plan need records.
func (t *layouts) assign(p *algorithm.Plan) (layout, bool) {
	l, fits := layoutOf(p)
	if !fits {
		return briefLayout, isBrief(p)
	}
	format := p.StateFormat()
	at := format.Hash() + uint64(l.unitBits)
	for range layoutProbes {
		at = at&layoutMask + 1
		id := at & layoutMask
		if id == briefID {
			continue
		}
		existing := t.byID[id].Load()
		if existing == nil {
			l.id, l.salt = id, id*layoutSalt&sealedMask
			if t.byID[id].CompareAndSwap(nil, &layoutPlan{l, *p}) {
				return l, true
			}
			existing = t.byID[id].Load() // another goroutine was faster
		}
		if existing.unitBits == l.unitBits && existing.plan.StateFormat() == format {
			return existing.layout, true
		}
	}
	return briefLayout, isBrief(p)
}

// isBrief reports whether a full bucket of the plan drains within briefTime.
func isBrief(p *algorithm.Plan) bool {
	if p.Kind() != algorithm.KindBucket || p.Capacity() > fieldMask {
		return false
	}
	units, micros := p.Rate()
	return micros <= briefTime.Microseconds() && p.Capacity()+units <= fieldMask &&
		p.Life(p.Capacity()) <= briefTime.Microseconds()
}

// get returns the layout of an entry, given its tag word.
func (t *layouts) get(tagWord uint64) *layout {
	if known := t.byID[tagWord&layoutMask].Load(); known != nil {
		return &known.layout
	}
	return &briefLayout
}

// timeLeft calls layout.timeLeft with the layout of the entry.
func (t *layouts) timeLeft(tagWord, word uint64, ref, now int64) int64 {
	return t.get(tagWord).timeLeft(tagWord>>layoutBits, word, ref, now)
}
