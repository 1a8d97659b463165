package ledger

import (
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// A shard is a part of the records.
type shard struct {
	mu      sync.Mutex
	records map[Key]*record
	list    []*record // the same, to go through
	most    int
	cursor  int   // of the sweep
	kinds   uint8 // of all records that there ever were, one bit each

	// Records that have something to tell are in queues, by how much that is: so the hottest are found at once, however
	// many there are. One whose heat grows is put into another queue, and not taken from the one it was in; an entry counts
	// only if the record says that it is there.
	queues [classes]queue
	ready  atomic.Uint32 // which queues are not empty

	unlearned atomic.Int32    // records; see learning
	lookups   map[Key]*Lookup // that decisions wait for

	linger [gaps][]*record // see linger
	_      [64]byte        // so that shards have lines of the cache of their own
}

type queue struct {
	entries []*record
	head    int
}

const (
	// classes is how many classes of heat there are. One has twice the heat of the one below.
	classes = 16
	// whole is the class of a whole capacity that was consumed and not told.
	whole = 9
	// wanted is the class of a key of which nothing is left: there is nothing to tell, and much that may be heard.
	wanted = whole - 2
	none   = -1
)

func (sh *shard) init(most int) {
	sh.most = most
	sh.records = make(map[Key]*record)
}

// add adds a record for a key that is new.
func (l *Ledger) add(sh *shard, key Key, p *quota.Plan, offset int64, now moment) (*record, error) {
	l.sweep(sh, now, 2)
	if len(sh.list) >= sh.most && !l.makeRoom(sh, now) {
		l.counters.full.Add(1)
		return nil, headgate.ErrFull
	}
	r := &record{key: key, plan: p, place: int32(len(sh.list)), offset: offset, born: now.uptime, class: none, gap: none, ahead: now.ahead}
	r.start = max(0, now.uptime.Truncate(time.Microsecond))
	at := r.at(now)
	r.heardAt, r.askedAt, r.emptyAt, r.oldest = at, at, at, at
	if l.self != 0 {
		r.waste = l.watch(r, now).Microseconds() // it was empty until now
	}
	if p.HasWindows() {
		r.window = p.WindowOf(at)
	}
	if l.options.LocalCap < 100 && p.Kind != algorithm.KindLeases {
		r.alone = &quota.Counter{}
	}
	if cur := sh.inForce(key, p.Kind); cur != nil {
		r.kin = &kin{replacedBy: cur}
	}
	sh.kinds |= 1 << p.Kind
	sh.records[key] = r
	sh.list = append(sh.list, r)
	if l.asks && p.Shared {
		l.unlearn(sh, r)
	}
	return r, nil
}

// makeRoom forgets the record that has the least left to remember, among some.
func (l *Ledger) makeRoom(sh *shard, now moment) bool {
	const tries = 32
	var victim *record
	var least int64
	for range min(tries, len(sh.list)) {
		r := sh.next()
		l.roll(r, now)
		if r.idle(now) {
			l.drop(sh, r)
			return true
		}
		left := r.emptyAt
		if !r.plan.IsBucket() {
			left = r.at(now) + r.here.Decide(r.plan, r.at(now), 0).ResetAfter.Microseconds()
		}
		if !r.denied && !r.stays && r.owed == 0 && (victim == nil || left < least) {
			victim, least = r, left
		}
	}
	if victim == nil {
		return false
	}
	l.forgot.Store(int64(max(1, now.clock)))
	l.counters.evicted.Add(1)
	l.drop(sh, victim)
	return true
}

// sweep goes through some records and drops those that are as good as none.
func (l *Ledger) sweep(sh *shard, now moment, some int) {
	for range min(some, len(sh.list)) {
		r := sh.next()
		if quiet := r.at(now) - max(r.askedAt, r.heardAt); quiet >= 0 && quiet < 2*l.options.Idle.Microseconds() {
			continue
		}
		l.roll(r, now)
		if r.idle(now) && r.class == none {
			l.drop(sh, r)
		}
	}
}

// next returns one record after the other.
func (sh *shard) next() *record {
	if sh.cursor >= len(sh.list) {
		sh.cursor = 0
	}
	sh.cursor++
	return sh.list[sh.cursor-1]
}

func (l *Ledger) drop(sh *shard, r *record) {
	last := len(sh.list) - 1
	sh.list[r.place] = sh.list[last]
	sh.list[r.place].place = r.place
	sh.list[last] = nil
	sh.list = sh.list[:last]
	delete(sh.records, r.key)
	sh.forsake(r)
	sh.leave(r)
	sh.release(r, true)
	r.class = none
}

// changed queues a record of which there is something to tell, by how much that is.
func (l *Ledger) changed(sh *shard, r *record) {
	if !r.plan.Shared {
		return
	}
	sh.push(r, heat(r.plan, r.total-r.told, whole))
}

// heat returns the class of a number of units, if that of the whole capacity is given.
func heat(p *quota.Plan, units int64, whole int) int8 {
	return int8(max(0, min(bits.Len64(uint64(max(0, units)))-p.Width+whole, classes-1)))
}

// asked queues a record of which there may be something to hear, as it was denied.
func (l *Ledger) asked(sh *shard, r *record) {
	if l.asks && r.plan.Shared {
		sh.push(r, wanted)
	}
}

func (sh *shard) push(r *record, class int8) {
	if class <= r.class {
		return
	}
	r.class = class
	q := &sh.queues[class]
	if len(q.entries) == cap(q.entries) {
		q.tidy(class)
	}
	q.entries = append(q.entries, r)
	sh.ready.Store(sh.ready.Load() | 1<<class)
}

// tidy takes out what does not count, once it may be more than half.
func (q *queue) tidy(class int8) {
	kept := q.entries[:0]
	for _, r := range q.entries[q.head:] {
		if r.class == class {
			r.class = none // so that what is there twice is kept once
			kept = append(kept, r)
		}
	}
	for _, r := range kept {
		r.class = class
	}
	clear(q.entries[len(kept):])
	if len(kept) > cap(kept)*3/4 { // else it would have to be tidied again soon
		kept = slices.Grow(kept, cap(kept))
	}
	q.entries, q.head = kept, 0
}

// pop returns the record that has been in a queue for longest, or nil.
func (sh *shard) pop(class int8) *record {
	q := &sh.queues[class]
	for q.head < len(q.entries) {
		r := q.entries[q.head]
		q.entries[q.head] = nil
		q.head++
		if r.class == class {
			return r
		}
	}
	q.entries, q.head = q.entries[:0], 0
	sh.ready.Store(sh.ready.Load() &^ (1 << class))
	return nil
}
