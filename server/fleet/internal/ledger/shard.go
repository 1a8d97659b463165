package ledger

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/lookup"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A shard has a part of the ledger's records, with its own lock.
type shard struct {
	mu       sync.Mutex
	records  map[tally.Key]*record
	list     []*record // the same records, for iteration
	capacity int
	cursor   int   // index in list of the record that sweep and evict look at next
	kinds    uint8 // kinds of all records that the shard ever had, one bit each

	// Records with something to send are in queues by heat class, so that the hottest records are found quickly. A record
	// whose heat grows is added to another queue, but is not removed from the old one. An entry is valid only if the
	// record's status.class is the class of the queue.
	queues [classes]queue
	ready  atomic.Uint32 // classes whose queues are not empty, one bit each

	lookups map[tally.Key]*lookup.Lookup // lookups that decisions wait for

	revisits [revisitGaps][]*record // records to exchange again, by gap; see revisitGaps
	_        [64]byte               // keeps shards on separate cache lines
}

// A queue has its records in entries[head:].
type queue struct {
	entries []*record
	head    int
}

const (
	// classes is the number of heat classes. The heat of a key is the part of its limit that was consumed and not sent.
	// Each class has twice the heat of the class below.
	classes = 16
	// capacityClass is the class of a key whose whole capacity was consumed and not sent.
	capacityClass = 9
	// pullClass is the class of a key with no units remaining and nothing to send. It is high, because peers may have
	// consumed many units of such a key.
	pullClass = capacityClass - 2
	none      = -1 // the class of a record that is in no queue, and the gap of one that is in no list of revisits
)

// findOrAdd returns the record of a key, which it adds if there is none. The shard is locked.
func (l *Ledger) findOrAdd(sh *shard, key tally.Key, p *quota.Plan, offset int64, now moment) (*record, error) {
	if r := sh.records[key]; r != nil {
		return r, nil
	}
	return l.add(sh, key, p, offset, now)
}

// add adds a record for a new key. If there is no room, it evicts another key or fails with headgate.ErrFull.
func (l *Ledger) add(sh *shard, key tally.Key, p *quota.Plan, offset int64, now moment) (*record, error) {
	l.sweep(sh, now, 2)
	if len(sh.list) >= sh.capacity && !l.evict(sh, now) {
		l.counters.full.Add(1)
		return nil, headgate.ErrFull
	}
	r := &record{
		key: key, plan: p, offset: offset, addedAt: now.uptime,
		status: recordStatus{class: none, gap: none}, index: recordIndex{list: int32(len(sh.list))},
		window: windowState{clockAhead: now.clockAhead},
	}
	r.sent.start = max(0, now.uptime.Truncate(time.Microsecond))
	at := r.time(now)
	r.updatedAt, r.requestedAt, r.emptyAt, r.join.oldestStart = at, at, at, at
	if !l.pulls {
		r.emptyTime = l.observedFor(r, now).Microseconds() // the bucket was empty since this node could receive updates
	}
	if p.HasWindows() {
		r.window.start = p.WindowOf(at)
	}
	if l.options.LocalCap < 100 && p.Kind != algorithm.KindLeases {
		r.extra.local = &quota.Bound{Plan: l.localPlan(p)}
	}
	if current := sh.currentRecord(key, p.Kind); current != nil {
		r.extra.kinds = &otherKinds{replacedBy: current}
	}
	sh.kinds |= 1 << p.Kind
	sh.records[key] = r
	sh.list = append(sh.list, r)
	if l.pulls && p.Shared {
		r.status.peersUnknown = true
	}
	return r, nil
}

// evict looks at the next records of the list. It drops a drained record or, if there is none, the record that drains
// first, and reports whether it has dropped one. It keeps denied keys, so that a client cannot end a denial by filling
// the table with other keys.
func (l *Ledger) evict(sh *shard, now moment) bool {
	const tries = 32
	var victim *record
	var victimDrainedAt int64
	for range min(tries, len(sh.list)) {
		r := sh.next()
		l.advance(r, now)
		if r.idle(now) {
			l.drop(sh, r)
			return true
		}
		drainedAt := r.emptyAt
		if !r.plan.IsBucket() {
			drainedAt = r.time(now) + r.usage.Decide(r.plan, r.time(now), 0).ResetAfter.Microseconds()
		}
		if r.status.denied || r.status.noEviction || r.pending > 0 {
			continue
		}
		if victim == nil || drainedAt < victimDrainedAt {
			victim, victimDrainedAt = r, drainedAt
		}
	}
	if victim == nil {
		return false
	}
	l.evictedAt.Store(int64(max(1, now.uptime)))
	l.counters.evicted.Add(1)
	l.drop(sh, victim)
	return true
}

// sweep looks at the next n records of the list, and drops those that are drained and unused.
func (l *Ledger) sweep(sh *shard, now moment, n int) {
	for range min(n, len(sh.list)) {
		r := sh.next()
		if unusedFor := r.time(now) - max(r.requestedAt, r.updatedAt); unusedFor >= 0 && unusedFor < 2*l.options.Idle.Microseconds() {
			continue
		}
		l.advance(r, now)
		if r.idle(now) && r.status.class == none {
			l.drop(sh, r)
		}
	}
}

// next returns the next record of the list, starting again after the last.
func (sh *shard) next() *record {
	if sh.cursor >= len(sh.list) {
		sh.cursor = 0
	}
	sh.cursor++
	return sh.list[sh.cursor-1]
}

func (l *Ledger) drop(sh *shard, r *record) {
	last := len(sh.list) - 1
	sh.list[r.index.list] = sh.list[last]
	sh.list[r.index.list].index.list = r.index.list
	sh.list[last] = nil
	sh.list = sh.list[:last]
	delete(sh.records, r.key)
	sh.replaceDropped(r)
	sh.stopRevisits(r)
	sh.endLookup(r, true)
	r.status.class = none
}

// queueChange queues a record with something to send in the class of the units that were not sent.
func (l *Ledger) queueChange(sh *shard, r *record) {
	if !r.plan.Shared {
		return
	}
	sh.push(r, heat(r.plan, r.total-r.delivered, capacityClass))
}

// heat returns the class of a number of units. capacityClass is the class to return for the whole capacity.
func heat(p *quota.Plan, units int64, capacityClass int) int8 {
	return int8(max(0, min(bits.Len64(uint64(max(0, units)))-p.Width+capacityClass, classes-1)))
}

// queueLookup queues a record after a denial, so that this node learns what peers have consumed since.
func (l *Ledger) queueLookup(sh *shard, r *record) {
	if l.pulls && r.plan.Shared {
		sh.push(r, pullClass)
	}
}

// push adds a record to the queue of a class, unless it is in the queue of this class or a hotter one.
func (sh *shard) push(r *record, class int8) {
	if class <= r.status.class {
		return
	}
	r.status.class = class
	q := &sh.queues[class]
	if len(q.entries) == cap(q.entries) {
		q.compact(class)
	}
	q.entries = append(q.entries, r)
	sh.ready.Store(sh.ready.Load() | 1<<class)
}

// compact removes entries of records that are in another queue now, and second entries of the same record.
func (q *queue) compact(class int8) {
	current := q.entries[:0]
	for _, r := range q.entries[q.head:] {
		if r.status.class == class {
			r.status.class = none // so that a second entry is removed
			current = append(current, r)
		}
	}
	for _, r := range current {
		r.status.class = class
	}
	clear(q.entries[len(current):])
	if len(current) > cap(current)*3/4 { // grow, because the queue would have to be compacted again soon
		current = slices.Grow(current, cap(current))
	}
	q.entries, q.head = current, 0
}

// pop returns the oldest record of a queue, or nil.
func (sh *shard) pop(class int8) *record {
	q := &sh.queues[class]
	for q.head < len(q.entries) {
		r := q.entries[q.head]
		q.entries[q.head] = nil
		q.head++
		if r.status.class == class {
			return r
		}
	}
	q.entries, q.head = q.entries[:0], 0
	sh.ready.Store(sh.ready.Load() &^ (1 << class))
	return nil
}
