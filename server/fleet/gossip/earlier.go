package gossip

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// Limits with windows do not need the sum of a tally. Their packets use it for the units of earlier windows: two
// numbers of earlierBits bits each. Numbers above maxEarlier are sent as maxEarlier.
const (
	earlierBits = 31
	maxEarlier  = 1<<earlierBits - 1
)

// These values of the drained part specify which number is in the upper half of the sum.
const (
	sumHasCarried = iota
	sumHasAllPrevious
)

func hasWindows(l *headgate.Limit) bool {
	return l.Algorithm == headgate.FixedWindow || l.Algorithm == headgate.SlidingWindow
}

// packEarlier puts the units of earlier windows into the sum of a tally, if its limit has windows. Hosts with older
// versions ignore this sum.
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
