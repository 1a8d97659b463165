package gossip

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// earlierBits is the number of bits of each number in the sum of a tally with windows. Two billion units in a window
// and more are sent as that many.
const (
	earlierBits = 31
	maxEarlier  = 1<<earlierBits - 1
)

// These values of the drained part say which number the upper half of the sum is.
const (
	sumHasCarried = iota
	sumHasAllPrevious
)

func hasWindows(l *headgate.Limit) bool {
	return l.Algorithm == headgate.FixedWindow || l.Algorithm == headgate.SlidingWindow
}

// packEarlier puts the units of earlier windows into the sum of a tally, which only limits without windows need. Older
// versions ignore it.
func packEarlier(t *tally.Tally) {
	if !hasWindows(&t.Limit) {
		return
	}
	upper, kind := t.AllPrevious, uint8(sumHasAllPrevious)
	if t.Carried > 0 {
		upper, kind = t.Carried, sumHasCarried
	}
	t.Comparison = tally.Comparison{
		Sum:         min(upper, maxEarlier)<<earlierBits | min(t.Previous, maxEarlier),
		DrainedPart: kind,
	}
	t.SumValid = t.Sum > 0
}

// unpackEarlier moves the units of earlier windows from the sum of a tally to their fields.
func unpackEarlier(t *tally.Tally) {
	if !hasWindows(&t.Limit) {
		return
	}
	if sum := t.Sum; t.SumValid && sum > 0 {
		t.Previous = sum & maxEarlier
		if upper := sum >> earlierBits & maxEarlier; t.DrainedPart == sumHasCarried {
			t.Carried = upper
		} else {
			t.AllPrevious = upper
		}
	}
	t.Comparison = tally.Comparison{}
}
