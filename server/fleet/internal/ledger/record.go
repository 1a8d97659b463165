package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// A record is what a node knows of one key. Its shard's lock guards it. Times are in µs since 1970, minus the key's
// offset, unless a field says otherwise.
type record struct {
	// Every decision reads these. They fit into the first two cache lines.
	plan        *quota.Plan
	emptyAt     int64 // when the bucket is or was empty
	emptyTime   int64 // how long the bucket has been empty in all; see drainedWhileEmpty
	total       int64 // consumed by this node since sent.start
	delivered   int64 // the part of total that was sent
	requestedAt int64 // when units were last requested
	changedAt   int64 // when consumed last changed
	owed        int64 // consumed by peers and not charged yet; see debt
	status      recordStatus
	index       recordIndex
	consumed    quota.Counter // by all nodes

	key         Key
	offset      int64         // by which the clock of a staggered limit is behind
	addedAt     time.Duration // uptime when the record was added
	updatedAt   int64         // when a peer last sent an update
	exchangedAt int64         // time of the latest exchange; 0 before the first response, and in gossip
	sent        sentTotal
	window      windowState
	debt        debtState
	join        joinState
	peers       []peerTotal
	optional    optionalState
}

// A recordStatus is what a record has to remember of its latest decisions and updates.
type recordStatus struct {
	denied    bool // the latest decision was a denial
	protected bool // not evicted, as it was denied since it last drained
	sendLevel bool // peers should get the level, even if they know the total
	unlearned bool // consumption by peers is not known; see lookupState
	hasRefund bool // sent.refunded is not 0
	reset     bool // the total starts with a reset
	class     int8 // of the queue that it is in, or none
	gap       int8 // of the list of revisits that it is in, or none
}

// A recordIndex has the indices of a record in lists of its shard.
type recordIndex struct {
	list    int32 // of records
	revisit int32 // of revisits
}

// A sentTotal is what peers may know of the units that this node consumed.
type sentTotal struct {
	start      time.Duration // uptime when the total was 0
	highest    int64         // the highest total that was ever sent
	firstAt    int64         // when any of it was first sent; 0 if never
	refunded   int64         // units that were sent and given back later
	refundedAt int64
}

// A windowState is the open window of a limit that has windows.
type windowState struct {
	start      int64
	clockAhead int64 // of the clock by which the window started; see moveWindowBack
	carried    int64 // into a fixed window
	previous   int64 // taken in the window before, including what was carried into that one
}

// A debtState describes units that peers consumed. record.owed are those that could not be charged yet, because the
// debt was at its deepest, or because the peers' window starts before ours.
type debtState struct {
	window  int64 // that record.owed belongs to
	deepest int64 // since the key was in no debt
}

// A joinState says which units are counted already: those of peers here, and those of this node in sums.
type joinState struct {
	oldest     int64 // start of the oldest total of this node and its peers
	at         int64 // when a level of a peer was last adopted; 0 if never
	charged    int32 // units charged for peers that were unreachable; see drainedWhileApart
	guessed    bool  // the adopted level is a guess; see applySum
	totalsVoid bool  // the key was reset: totals include units that do not count
	grewAt     stamp // when a total that grew was last sent; see isRecent
}

// An optionalState has the parts of a record that most records do not have.
type optionalState struct {
	local    *extraCounter
	share    *extraCounter
	kinds    *otherKinds  // if the key has records of other kinds
	observed *observation // if another limiter decides, as in region
}

// An observation is the latest decision of another limiter.
type observation struct {
	check headgate.Check
	level int64 // units consumed
	at    int64
}

// at returns now by the clock of the record's limit.
func (r *record) at(now moment) int64 { return now.at(r.plan, r.offset) }

// advance updates a record to now: windows end, and buckets drain.
func (l *Ledger) advance(r *record, now moment) {
	at := r.at(now)
	switch {
	case r.plan.HasWindows():
		w := r.plan.WindowOf(at)
		if w < r.window.start-r.plan.Period && now.clockAhead < r.window.clockAhead {
			l.moveWindowBack(r, w, now)
		}
		if w > r.window.start {
			r.endWindow(w)
			r.window.start, r.window.clockAhead = w, now.clockAhead
			r.debt.deepest = 0
			r.restart(now)
			if r.debt.window < w {
				r.owed = 0 // a debt ends with its window, except for what is carried
			}
			if r.window.carried > 0 {
				r.chargeCarried(r.window.carried, now)
			}
		}
		if r.owed > 0 && r.debt.window <= r.window.start {
			r.chargeOwed(now)
		}
	case r.plan.IsBucket():
		if r.owed > 0 && at > r.emptyAt {
			r.drainOwed(at)
		}
		if at > r.emptyAt {
			r.emptyTime += at - r.emptyAt
			r.emptyAt = at
			r.debt.deepest, r.join.guessed, r.join.charged = 0, false, 0
			if !r.replaced() {
				r.optional.kinds = nil
			}
			if r.total > 0 && r.delivered == r.total && at-r.requestedAt >= l.options.Idle.Microseconds() {
				r.restart(now)
			}
		}
		if r.owed > 0 {
			r.chargeOwed(now)
		}
	}
}

// drainOwed drains owed units since the bucket was empty, as if they had been in it.
func (r *record) drainOwed(at int64) {
	drained := r.plan.UnitsIn(at-r.emptyAt, r.owed)
	r.owed -= drained
	r.emptyAt += r.plan.TimeFor(drained)
	r.consumed = quota.Counter{}
	d := r.consumed.Charge(r.plan, r.emptyAt, min(r.owed, headgate.MaxCount))
	r.owed -= d.Receipt.Units
	r.emptyAt += r.plan.TimeFor(d.Receipt.Units)
	r.changedAt = at
}

// chargeOwed charges owed units as far as the debt may go.
func (r *record) chargeOwed(now moment) {
	d := r.consumed.Charge(r.plan, r.at(now), min(r.owed, headgate.MaxCount))
	r.changedAt = r.at(now)
	r.owed -= d.Receipt.Units
	r.setEmptyAt(&d, now)
}

// restart starts the total of a record again at 0.
func (r *record) restart(now moment) {
	r.sent.start = max(now.uptime.Truncate(time.Microsecond), r.sent.start+time.Microsecond)
	r.total, r.delivered, r.sent.highest, r.sent.firstAt, r.sent.refunded = 0, 0, 0, 0, 0
	r.status.reset, r.status.hasRefund = false, false
}

// reset forgets consumption.
func (r *record) reset(now moment) {
	r.consumed = quota.Counter{}
	if r.optional.local != nil {
		r.optional.local.Counter = quota.Counter{}
	}
	r.optional.share = nil
	r.owed, r.status.denied, r.status.protected, r.join.totalsVoid = 0, false, false, true
	r.window.carried, r.window.previous = 0, 0
	r.forgetMoved()
	r.emptyAt = r.at(now)
	r.forgetEmptyTime()
}

// forgetEmptyTime forgets how long the bucket was empty.
func (r *record) forgetEmptyTime() {
	r.emptyTime = 0
	for i := range r.peers {
		r.peers[i].emptyTime, r.peers[i].emptyAtLevel = 0, 0
	}
}

// tryTake takes n units if that is allowed, and sets the decision.
func (l *Ledger) tryTake(r *record, n int64, now moment, d *headgate.Decision) bool {
	at := r.at(now)
	extra := r.hasExtraCounters()
	if extra && !r.allowedByExtraCounters(n, at) {
		*d = r.peek(n, now)
		return false
	}
	var lease uint64
	if r.plan.Kind == algorithm.KindLeases {
		lease = l.options.Rand()>>11 | 1 // in the 53 bits that every store can hold, and not 0
	}
	if !r.consumed.Take(r.plan, at, n, lease, d) {
		r.addOwed(d, n)
		if extra {
			r.tightenByExtraCounters(d, n, at)
		}
		return false
	}
	if extra {
		r.addToExtraCounters(n, at)
	}
	return true
}

// peekRecord returns the decision on n units without taking them, or the state of the key for 0 units.
func (r *record) peek(n int64, now moment) headgate.Decision {
	d := r.consumed.Decide(r.plan, r.at(now), n)
	r.addOwed(&d, n)
	r.tightenByExtraCounters(&d, n, r.at(now))
	return d
}

// addOwed adds owed units to a decision on n units.
func (r *record) addOwed(d *headgate.Decision, n int64) {
	if r.plan.HasWindows() {
		if !d.Allowed && r.carries() {
			r.addCarriedWait(d, n)
		}
		return
	}
	if r.owed == 0 {
		return
	}
	more := time.Duration(r.plan.TimeFor(r.owed)) * time.Microsecond
	d.Remaining -= r.owed
	d.ResetAfter += more
	if !d.Allowed && d.RetryAfter != headgate.Never {
		d.RetryAfter += more
	}
}

// charge takes n units regardless of the limit.
func (r *record) charge(n int64, now moment) headgate.Decision {
	d := r.consumed.Charge(r.plan, r.at(now), n)
	r.changedAt = r.at(now)
	r.addToExtraCounters(d.Receipt.Units, r.at(now))
	return d
}

// countConsumed counts units that this node consumed.
func (l *Ledger) countConsumed(sh *shard, r *record, n int64, now moment) {
	if !r.plan.Shared {
		return
	}
	if r.status.hasRefund {
		n -= r.useRefund(n, r.at(now))
	}
	r.total += n
	l.queueChange(sh, r)
}

// useRefund returns how many of n consumed units are offset by units that were sent and given back later. Peers have
// charged the latter already. They drain there, so that fewer can be offset as time passes.
func (r *record) useRefund(n, at int64) int64 {
	if r.plan.IsBucket() {
		r.sent.refunded -= r.plan.UnitsIn(at-r.sent.refundedAt, r.sent.refunded)
	}
	r.sent.refundedAt = at
	n = min(n, r.sent.refunded)
	r.sent.refunded -= n
	r.status.hasRefund = r.sent.refunded > 0
	return n
}

// give returns n units that this node took.
func (r *record) give(own *quota.Plan, n int64, receipt headgate.Receipt, now moment) {
	at := r.at(now)
	before := r.consumed.Decide(r.plan, at, 0).Remaining
	r.consumed.Give(r.plan, own, at, n, receipt)
	r.changedAt = at
	for _, c := range r.extraCounters() {
		if c != nil {
			c.Give(c.plan, own, at, n, receipt)
		}
	}
	d := r.consumed.Decide(r.plan, at, 0)
	r.setEmptyAt(&d, now)
	r.status.denied = false
	if !r.plan.Shared {
		return
	}
	given := d.Remaining - before
	unsent := min(given, r.total-r.sent.highest)
	r.total -= unsent
	r.delivered = min(r.delivered, r.total)
	if given -= unsent; given > 0 {
		r.useRefund(0, at)
		r.sent.refunded, r.status.hasRefund = r.sent.refunded+given, true
	}
}

// setEmptyAt sets when a bucket is empty, by a decision.
func (r *record) setEmptyAt(d *headgate.Decision, now moment) {
	if r.plan.IsBucket() {
		r.emptyAt = r.at(now) + d.ResetAfter.Microseconds()
	}
}

// level returns the number of consumed units that have not drained.
func (r *record) level(now moment) int64 {
	d := r.consumed.Decide(r.plan, r.at(now), 0)
	level := r.plan.Capacity() - d.Remaining
	if !r.plan.HasWindows() || r.debt.window <= r.window.start {
		level += r.owed
	}
	return level
}

// idle reports whether a record is drained and has nothing to send.
func (r *record) idle(now moment) bool {
	return r.owed == 0 && r.total == r.delivered && r.drained(now)
}

// drained reports whether no consumed units count any more.
func (r *record) drained(now moment) bool {
	if r.plan.IsBucket() {
		return r.emptyAt <= r.at(now)
	}
	return r.consumed.Decide(r.plan, r.at(now), 0).ResetAfter == 0
}

// tallyToSend returns the tally of a record, and records that peers may know it.
func (l *Ledger) tallyToSend(r *record, now moment) Tally {
	if r.sent.firstAt == 0 && r.total > 0 {
		r.sent.firstAt = r.at(now)
	}
	if r.total != r.sent.highest {
		r.join.grewAt = stampOf(r.at(now))
	}
	t := r.tally(now)
	t.KnownUnits, r.sent.highest = r.sent.highest, r.total
	l.addSum(&t, r, now)
	return t
}

// tally returns the tally of a record.
func (r *record) tally(now moment) Tally {
	t := Tally{
		Key: r.key, Limit: r.plan.Limit, Start: r.sent.start, Total: r.total, Level: r.level(now),
		Offset: r.offset, Reset: r.status.reset,
		Delivery: Delivery{
			Delivered: r.delivered, SendLevel: r.status.sendLevel,
			Unlearned: r.status.unlearned, AllNotes: r.exchangedAt == 0, Added: r.addedAt,
		},
	}
	if r.plan.HasWindows() {
		t.Window, t.Carried = r.window.start, r.window.carried+r.movedUnits()
	}
	return t
}
