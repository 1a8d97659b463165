package ledger

import (
	"math"
	"math/bits"
	"time"

	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// After a request for a key, a ledger that pulls exchanges the key several more times. At first, this is because peers
// may still report units from the time of the request. Later, it keeps the consumption of peers recent for the next
// request. The records to exchange again are in lists by their gap: records with gap g are exchanged in every 2^g-th
// call of Changes.
const (
	revisitGaps = 13 // number of gaps; they are 0 to 12
	shortGap    = 1  // the gap after a request
	// callsInLag is the number of times that Changes is called within LedgerOptions.Lag.
	callsInLag = 8
	// perRefill is the number of times that a key is exchanged in the time in which its whole capacity refills.
	perRefill = 16
)

// recentlyRequested reports whether updates of units that were consumed at the time of the latest request may still
// arrive.
func (l *Ledger) recentlyRequested(r *record, now moment) bool {
	return l.pulls && r.time(now)-r.requestedAt < l.lookupAfter
}

// SetLookupAfter sets how long after a request for a key Changes keeps returning the key, in every other call. A key
// that was unused for a longer time is looked up again.
func (l *Ledger) SetLookupAfter(d time.Duration) {
	l.lookupAfter = d.Microseconds()
	if !l.pulls {
		l.lookupAfter = math.MaxInt64
	}
}

// revisitEvery moves a record to the list of records with a gap.
func (sh *shard) revisitEvery(r *record, gap int8) {
	if r.status.gap == gap {
		return
	}
	sh.stopRevisits(r)
	r.status.gap, r.index.revisit = gap, int32(len(sh.revisits[gap]))
	sh.revisits[gap] = append(sh.revisits[gap], r)
}

// stopRevisits removes a record from its list of revisits, if it is in one. The last record of the list takes the
// removed record's index.
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
		sh.revisits[r.status.gap] = nil // frees the memory of a list that may have been long
	}
	r.status.gap = none
}

// queueRevisits queues the records that are due in a call of Changes, and stops revisiting drained records.
func (l *Ledger) queueRevisits(sh *shard, call int, now moment) {
	for gap := int8(revisitGaps - 1); gap >= 0; gap-- { // longest first, so that a moved record is not queued twice
		if call%(1<<gap) != 0 {
			continue
		}
		list := sh.revisits[gap]
		for i := len(list) - 1; i >= 0; i-- { // last first, because the last record takes the index of a removed one
			r := list[i]
			l.advance(r, now)
			recent := l.recentlyRequested(r, now)
			if !recent && r.idle(now) {
				sh.stopRevisits(r)
				continue
			}
			sh.push(r, heat(r.plan, r.level(now), pullClass))
			if later := l.revisitGap(r.plan); !recent && gap <= shortGap && later > gap {
				sh.revisitEvery(r, later)
			}
		}
	}
}

// revisitGap returns the gap for a key that was not requested recently.
func (l *Ledger) revisitGap(p *quota.Plan) int8 {
	refill := p.Period
	if p.IsBucket() {
		refill = p.TimeFor(p.Capacity())
	}
	calls := refill / perRefill * callsInLag / max(1, l.options.Lag.Microseconds())
	return int8(max(shortGap, min(bits.Len64(uint64(calls)), revisitGaps-1)))
}
