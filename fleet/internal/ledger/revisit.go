package ledger

import (
	"math"
	"math/bits"
	"time"

	"github.com/headgate/headgate/fleet/internal/quota"
)

// A ledger that hears only of keys that it asks for goes on asking for a while: others may tell of what they consumed at
// the same time a moment later, and what they consume in the meantime counts when the key is asked for again. Records
// linger in lists, one for each gap between two questions: that of gap g is gone through in every 2^g-th call of Changes.
const (
	gaps = 13
	soon = 1
	// callsInLag is how often Changes is called in the time in which news may be late.
	callsInLag = 8
	// perRefill is how often one asks for a key in the time in which all of it refills.
	perRefill = 16
)

// fresh reports whether others may still have to tell of what they consumed when a key was last asked for.
func (l *Ledger) fresh(r *record, now moment) bool {
	return l.asks && r.at(now)-r.askedAt < l.attentive.Microseconds()
}

// SetLookupAge has keys asked for in every other call of Changes for so long after they were asked for here, and learned again
// when they have been left alone for longer.
func (l *Ledger) SetLookupAge(d time.Duration) {
	l.attentive, l.learning.cold = d, d.Microseconds()
	if !l.asks {
		l.learning.cold = math.MaxInt64
	}
}

// stay puts a record into a list, and takes it from the one it was in: it is in one at most.
func (sh *shard) stay(r *record, gap int8) {
	if r.gap == gap {
		return
	}
	sh.leave(r)
	r.gap, r.spot = gap, int32(len(sh.linger[gap]))
	sh.linger[gap] = append(sh.linger[gap], r)
}

// leave takes a record from the list it is in, if it is in one. The last of the list takes its place.
func (sh *shard) leave(r *record) {
	if r.gap == none {
		return
	}
	list := sh.linger[r.gap]
	last := len(list) - 1
	list[r.spot] = list[last]
	list[r.spot].spot = r.spot
	list[last] = nil
	sh.linger[r.gap] = list[:last]
	if last == 0 {
		sh.linger[r.gap] = nil // many lists were long once
	}
	r.gap = none
}

// askAgain queues the records whose turn it is, and lets go of those that are as good as new.
func (l *Ledger) askAgain(sh *shard, turn int, now moment) {
	for gap := int8(gaps - 1); gap >= 0; gap-- { // from the longest: records only move to a longer one
		if turn%(1<<gap) != 0 {
			continue
		}
		list := sh.linger[gap]
		for i := len(list) - 1; i >= 0; i-- { // from the last, as that takes the place of one that leaves
			r := list[i]
			l.roll(r, now)
			fresh := l.fresh(r, now)
			if !fresh && r.idle(now) {
				sh.leave(r)
				continue
			}
			sh.push(r, heat(r.plan, r.level(now), wanted))
			if later := l.gapOf(r.plan); !fresh && gap <= soon && later > gap {
				sh.stay(r, later)
			}
		}
	}
}

// gapOf returns how long to wait between questions for a key that is not asked for.
func (l *Ledger) gapOf(p *quota.Plan) int8 {
	refill := p.Period
	if p.IsBucket() {
		refill = p.TimeFor(p.Capacity())
	}
	calls := refill / perRefill * callsInLag / max(1, l.options.Lag.Microseconds())
	return int8(max(soon, min(bits.Len64(uint64(calls)), gaps-1)))
}
