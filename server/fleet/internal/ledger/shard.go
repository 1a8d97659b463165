package ledger

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// A shard holds a part of the records.
type shard struct {
	mu       sync.Mutex
	records  map[Key]*record
	list     []*record // the same records, for iteration
	capacity int
	cursor   int   // index in list of the record that sweep and evict look at next
	kinds    uint8 // of all records there ever were, one bit each

	// Records with units to send are in queues by heat class, so that the hottest are found at once. A record whose heat
	// grows is added to another queue and also stays in the old one. Only the entry in the record's class counts.
	queues [classes]queue
	ready  atomic.Uint32 // which queues are not empty

	lookups map[Key]*Lookup // that decisions wait for

	revisits [revisitGaps][]*record // by gap; see revisitGaps
	_        [64]byte               // keeps shards on separate cache lines
}

type queue struct {
	entries []*record
	head    int
}

const (
	// classes is the number of heat classes. Each has twice the heat of the one below.
	classes = 16
	// capacityClass is the class of a key whose whole capacity was consumed and not sent.
	capacityClass = 9
	// pullClass is the class of a key with no units remaining and nothing to send. It is high, as peers may have consumed
	// many units of such a key.
	pullClass = capacityClass - 2
	none      = -1 // for a record that is in no queue, or in no list of revisits
)

func (sh *shard) init(most int) {
	sh.capacity = most
	sh.records = make(map[Key]*record)
}

// findOrAdd returns the record of a key, which it adds if there is none. The shard is locked.
func (l *Ledger) findOrAdd(sh *shard, key Key, p *quota.Plan, offset int64, now moment) (*record, error) {
	if r := sh.records[key]; r != nil {
		return r, nil
	}
	return l.add(sh, key, p, offset, now)
}

// add adds a record for a new key.
func (l *Ledger) add(sh *shard, key Key, p *quota.Plan, offset int64, now moment) (*record, error) {
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
	at := r.at(now)
	r.updatedAt, r.requestedAt, r.emptyAt, r.join.oldest = at, at, at, at
	if !l.pulls {
		r.emptyTime = l.observedFor(r, now).Microseconds() // the bucket was empty until now
	}
	if p.HasWindows() {
		r.window.start = p.WindowOf(at)
	}
	if l.options.LocalCap < 100 && p.Kind != algorithm.KindLeases {
		r.optional.local = &extraCounter{plan: l.localPlan(p)}
	}
	if cur := sh.inForce(key, p.Kind); cur != nil {
		r.optional.kinds = &otherKinds{replacedBy: cur}
	}
	sh.kinds |= 1 << p.Kind
	sh.records[key] = r
	sh.list = append(sh.list, r)
	if l.pulls && p.Shared {
		r.status.unlearned = true
	}
	return r, nil
}

// evict drops, of the next few records, the one that drains first. It reports whether it dropped one.
func (l *Ledger) evict(sh *shard, now moment) bool {
	const tries = 32
	var victim *record
	var least int64
	for range min(tries, len(sh.list)) {
		r := sh.next()
		l.advance(r, now)
		if r.idle(now) {
			l.drop(sh, r)
			return true
		}
		left := r.emptyAt
		if !r.plan.IsBucket() {
			left = r.at(now) + r.consumed.Decide(r.plan, r.at(now), 0).ResetAfter.Microseconds()
		}
		if !r.status.denied && !r.status.protected && r.owed == 0 && (victim == nil || left < least) {
			victim, least = r, left
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

// sweep drops those of the next n records that are drained and unused.
func (l *Ledger) sweep(sh *shard, now moment, n int) {
	for range min(n, len(sh.list)) {
		r := sh.next()
		if quiet := r.at(now) - max(r.requestedAt, r.updatedAt); quiet >= 0 && quiet < 2*l.options.Idle.Microseconds() {
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

// queueChange queues a record with something to send, by its amount.
func (l *Ledger) queueChange(sh *shard, r *record) {
	if !r.plan.Shared {
		return
	}
	sh.push(r, heat(r.plan, r.total-r.delivered, capacityClass))
}

// heat returns the class of a number of units, given the class of the whole capacity.
func heat(p *quota.Plan, units int64, capacityClass int) int8 {
	return int8(max(0, min(bits.Len64(uint64(max(0, units)))-p.Width+capacityClass, classes-1)))
}

// queueLookup queues a record for an exchange after a denial.
func (l *Ledger) queueLookup(sh *shard, r *record) {
	if l.pulls && r.plan.Shared {
		sh.push(r, pullClass)
	}
}

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

// compact removes entries that do not count.
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
	if len(current) > cap(current)*3/4 { // without more room it would be compacted again soon
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
