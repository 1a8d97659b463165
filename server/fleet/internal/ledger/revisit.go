package ledger

import (
	"math"
	"math/bits"
	"time"

	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// A ledger that pulls goes on exchanging a key for a while after a request: peers may report units that they consumed
// at the same time, and units that they consume later count when the key is requested again. Records to revisit are in
// lists by the gap between two exchanges: those in the list of gap g are exchanged in every 2^g-th call of Changes.
const (
	revisitGaps = 13
	shortGap    = 1
	// callsInLag is how often Changes is called in the time that updates may be late.
	callsInLag = 8
	// perRefill is how often a key is exchanged in the time in which all of it refills.
	perRefill = 16
)

// recentlyRequested reports whether updates of units that were consumed at the time of the latest request may still
// arrive.
func (l *Ledger) recentlyRequested(r *record, now moment) bool {
	return l.pulls && r.at(now)-r.requestedAt < l.pullFor.Microseconds()
}

// SetLookupAge makes keys be exchanged in every second call of Changes for this time after a request, and be looked up
// again after a longer pause.
func (l *Ledger) SetLookupAge(d time.Duration) {
	l.pullFor, l.lookups.maxAge = d, d.Microseconds()
	if !l.pulls {
		l.lookups.maxAge = math.MaxInt64
	}
}

// revisitEvery moves a record to the list of a gap.
func (sh *shard) revisitEvery(r *record, gap int8) {
	if r.status.gap == gap {
		return
	}
	sh.stopRevisits(r)
	r.status.gap, r.index.revisit = gap, int32(len(sh.revisits[gap]))
	sh.revisits[gap] = append(sh.revisits[gap], r)
}

// stopRevisits removes a record from its list, if it is in one. The last record of the list takes its place.
func (sh *shard) stopRevisits(r *record) {
	if r.status.gap == none {
		return
	}
	list := sh.revisits[r.status.gap]
	last := len(list) - 1
	list[r.index.revisit] = list[last]
	list[r.index.revisit].index.revisit = r.index.revisit
	list[last] = nil
	sh.revisits[r.status.gap] = list[:last]
	if last == 0 {
		sh.revisits[r.status.gap] = nil // many lists were long at some time
	}
	r.status.gap = none
}

// queueRevisits queues the records of the lists whose turn it is, and stops revisiting drained ones.
func (l *Ledger) queueRevisits(sh *shard, turn int, now moment) {
	for gap := int8(revisitGaps - 1); gap >= 0; gap-- { // from the longest, as records only move to longer gaps
		if turn%(1<<gap) != 0 {
			continue
		}
		list := sh.revisits[gap]
		for i := len(list) - 1; i >= 0; i-- { // from the last, as it takes the place of a removed one
			r := list[i]
			l.advance(r, now)
			fresh := l.recentlyRequested(r, now)
			if !fresh && r.idle(now) {
				sh.stopRevisits(r)
				continue
			}
			sh.push(r, heat(r.plan, r.level(now), pullClass))
			if later := l.revisitGap(r.plan); !fresh && gap <= shortGap && later > gap {
				sh.revisitEvery(r, later)
			}
		}
	}
}

// revisitGap returns the gap for a key that is not requested.
func (l *Ledger) revisitGap(p *quota.Plan) int8 {
	refill := p.Period
	if p.IsBucket() {
		refill = p.TimeFor(p.Capacity())
	}
	calls := refill / perRefill * callsInLag / max(1, l.options.Lag.Microseconds())
	return int8(max(shortGap, min(bits.Len64(uint64(calls)), revisitGaps-1)))
}
