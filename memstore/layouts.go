package memstore

import (
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// Layouts are the layouts of a store's entries, by id. After a change of limit, the id in an entry tells under what
// limit it was written. There is room for 4095 layouts. Keys of further limits, and of limits that do not fit a word,
// have records. Only brief limits, which refill within moments, share the id 0 instead; consumption under them is not
// known to limits with other layouts.
type layouts struct {
	places [1 << layoutBits]atomic.Pointer[layoutPlan]
}

// A layoutPlan is a layout and a plan that has it.
type layoutPlan struct {
	layout
	plan algorithm.Plan
}

const (
	anonymous = 0 // the id of brief limits that have no layout of their own
	// layoutProbes is how many indexes a layout may have.
	layoutProbes = 16
	// brief is how long such a limit takes to refill, and a rate to drain whole units, at the most.
	brief = 100 * time.Millisecond
	// layoutSalt spreads an id over the bits of a state word that are sealed.
	layoutSalt = 0x9E3779B97F4A7C15
	sealedMask = 1<<(fieldBits+timeBits) - 1
)

// briefLayout is the layout of all brief limits without a layout of their own.
var briefLayout = func() layout {
	l := layout{id: anonymous, life: windowBit | lifeFor(4*brief.Microseconds())}
	l.set(fieldBits, noGrain)
	return l
}()

// of returns the layout of a plan, and false if its keys have records.
func (t *layouts) of(p *algorithm.Plan) (layout, bool) {
	l, fits := layoutOf(p)
	if !fits {
		return briefLayout, isBrief(p)
	}
	shape := p.Shape()
	at := shape.Hash() + uint64(l.unitBits)
	for range layoutProbes {
		at = at&layoutMask + 1
		id := at & layoutMask
		if id == anonymous {
			continue
		}
		w := t.places[id].Load()
		if w == nil {
			l.id, l.salt = id, id*layoutSalt&sealedMask
			if t.places[id].CompareAndSwap(nil, &layoutPlan{l, *p}) {
				return l, true
			}
			w = t.places[id].Load()
		}
		if w.unitBits == l.unitBits && w.plan.Shape() == shape {
			return w.layout, true
		}
	}
	return briefLayout, isBrief(p)
}

// isBrief reports whether what was consumed under a plan is forgotten within moments.
func isBrief(p *algorithm.Plan) bool {
	if p.Kind() != algorithm.KindBucket || p.Capacity() > fieldMask {
		return false
	}
	units, micros := p.Rate()
	return micros <= brief.Microseconds() && p.Capacity()+units <= fieldMask &&
		p.Life(p.Capacity()) <= brief.Microseconds()
}

// at returns the layout of an entry with that tag word.
func (t *layouts) at(tagWord uint64) *layout {
	if w := t.places[tagWord&layoutMask].Load(); w != nil {
		return &w.layout
	}
	return &briefLayout
}

// left returns how long an entry is still worth remembering. See layout.left.
func (t *layouts) left(tagWord, word uint64, ref, now int64) int64 {
	return t.at(tagWord).left(tagWord>>layoutBits, word, ref, now)
}
