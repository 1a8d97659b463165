package oracle

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// eventHistory lists the units that were consumed and given back. It is the oracle of algorithms for which
// algorithm.Counts says how many of these units count.
type eventHistory []algorithm.Event

func (h *eventHistory) used(l headgate.Limit, t int64) int64 {
	units, ok := algorithm.Counts(l, *h, t)
	if !ok {
		panic(fmt.Sprint(l.Algorithm, " has no oracle: add one to this package, or let algorithm.Counts support the algorithm"))
	}
	return units
}

// first returns the first time from now on at which at most maxUsed units count. It searches by bisection, up to the
// time when the algorithm has forgotten all units.
func (h *eventHistory) first(l headgate.Limit, now, maxUsed int64) int64 {
	if h.used(l, now) <= maxUsed {
		return now
	}
	promise, _ := algorithm.PromiseOf(l)
	before, after := now, now+promise.Memory.Microseconds()
	for before+1 < after {
		if middle := before + (after-before)/2; h.used(l, middle) <= maxUsed {
			after = middle
		} else {
			before = middle
		}
	}
	return after
}

func (h *eventHistory) add(_ headgate.Limit, now, n int64, _ uint64) {
	*h = append(*h, algorithm.Event{At: now, Units: n})
}

func (h *eventHistory) remove(_ headgate.Limit, _, n int64, r headgate.Receipt) {
	*h = append(*h, algorithm.Event{At: r.At, Units: -n})
}
