package fleet

import "math/bits"

// A ledger that hears only of keys that it asks for goes on asking for a while: others may tell of what they consumed at
// the same time a moment later, and what they consume in the meantime counts when the key is asked for again. Records
// linger in lists, one for each gap between two questions: that of gap g is gone through in every 2^g-th call of Changes.
const (
	gaps = 13
	soon = 1
	// callsInLag is how often Changes is called in the time in which news may be late.
	callsInLag = 2 * perInterval
	// perRefill is how often one asks for a key in the time in which all of it refills.
	perRefill = 16
)

// fresh tells whether others may still have to tell of what they consumed when a key was last asked for.
func (l *Ledger) fresh(r *record, now moment) bool {
	return l.options.Asks && r.at(now)-r.askedAt < l.options.Lag.Microseconds()/2
}

// stay puts a record into a list, unless it is there. It is not taken from the one it was in; an entry counts only if the
// record says that it is there.
func (sh *shard) stay(r *record, gap int8) {
	if r.gap != gap {
		r.gap = gap
		sh.linger[gap] = append(sh.linger[gap], r)
	}
}

// askAgain queues the records whose turn it is, and lets go of those that are as good as new.
func (l *Ledger) askAgain(sh *shard, turn int, now moment) {
	for gap := int8(gaps - 1); gap >= 0; gap-- { // from the longest: records only move to a longer one
		list := sh.linger[gap]
		if len(list) == 0 || turn%(1<<gap) != 0 {
			continue
		}
		kept := list[:0]
		for _, r := range list {
			if r.gap != gap || r.lingered == turn {
				continue // it is elsewhere, or here twice
			}
			r.lingered = turn
			l.roll(r, now)
			fresh := l.fresh(r, now)
			if !fresh && r.idle(now) {
				r.gap = none
				continue
			}
			sh.push(r, r.plan.heat(r.level(now), wanted))
			if fresh || gap > soon {
				kept = append(kept, r)
			} else if later := l.gapOf(r.plan); later > gap {
				sh.stay(r, later)
			} else {
				kept = append(kept, r)
			}
		}
		clear(list[len(kept):])
		sh.linger[gap] = kept
	}
}

// gapOf returns how long to wait between questions for a key that is not asked for.
func (l *Ledger) gapOf(p *plan) int8 {
	refill := p.period
	if p.leaks() {
		refill = p.timeFor(p.Capacity())
	}
	calls := refill / perRefill * callsInLag / max(1, l.options.Lag.Microseconds())
	return int8(max(soon, min(bits.Len64(uint64(calls)), gaps-1)))
}
