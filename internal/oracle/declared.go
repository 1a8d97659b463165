package oracle

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
)

// declared lists the units that were consumed and given back. It is for algorithms that declare how many of
// these units count; see algorithm.Counts.
type declared []algorithm.Event

func (d *declared) used(l headgate.Limit, t int64) int64 {
	units, ok := algorithm.Counts(l, *d, t)
	if !ok {
		panic(fmt.Sprint(l.Algorithm, " has no oracle: it needs one here, or must be one that counts"))
	}
	return units
}

// first finds the time by bisection, between now and the time when the algorithm has forgotten all units.
func (d *declared) first(l headgate.Limit, now, maxUsed int64) int64 {
	if d.used(l, now) <= maxUsed {
		return now
	}
	promise, _ := algorithm.PromiseOf(l)
	before, after := now, now+promise.Memory.Microseconds()
	for before+1 < after {
		if middle := before + (after-before)/2; d.used(l, middle) <= maxUsed {
			after = middle
		} else {
			before = middle
		}
	}
	return after
}

func (d *declared) add(_ headgate.Limit, now, n int64, _ uint64) {
	*d = append(*d, algorithm.Event{At: now, Units: n})
}

func (d *declared) remove(_ headgate.Limit, _, n int64, r headgate.Receipt) {
	*d = append(*d, algorithm.Event{At: r.At, Units: -n})
}
