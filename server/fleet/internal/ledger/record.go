package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// A record has the state of one key. Its shard's lock guards it. Times are in µs since 1970, minus the key's offset,
// unless a field says otherwise. Pending units are units that peers consumed and that this node could not charge yet;
// see debtState.
type record struct {
	// Every decision reads the fields up to usage. They fit into the first two cache lines.
	plan        *quota.Plan
	emptyAt     int64 // when the bucket is or was empty
	emptyTime   int64 // total time in µs for which the bucket was empty; see drainedSeparately and applySum
	total       int64 // consumed by this node since sent.start
	delivered   int64 // the part of total that was sent
	requestedAt int64 // when units were last requested
	changedAt   int64 // when usage last changed, or a later denial; see deny
	pending     int64 // pending units
	status      recordStatus
	index       recordIndex
	usage       quota.Counter // what all nodes consumed

	key         tally.Key
	offset      int64         // µs by which the clock of a staggered limit is behind
	addedAt     time.Duration // uptime when the record was added
	updatedAt   int64         // when a peer last sent an update
	exchangedAt int64         // time of the latest exchange; 0 before the first response, and in gossip
	sent        sentTotal
	window      windowState
	debt        debtState
	join        joinState
	peers       []peerTotal // in the order of their slots
	extra       extraState
}

// A recordStatus has the flags of a record and the queues that it is in.
type recordStatus struct {
	denied         bool // the latest decision was a denial
	noEviction     bool // the key was denied since it last drained, so the record must not be evicted
	sendLevel      bool // peers should get the level, even if they know the total
	peersUnknown   bool // consumption by peers is not known; see checkLookup
	hasRefund      bool // sent.refunded is not 0
	startedByReset bool // the total starts with a reset
	class          int8 // the heat class of the queue that has the record, or none
	gap            int8 // the gap of the list of revisits that has the record, or none
}

// A recordIndex has the positions of a record in the lists of its shard.
type recordIndex struct {
	list    int32 // in shard.list
	revisit int32 // in its list of shard.revisits
}

// A sentTotal describes the totals that this node has sent, which peers may know.
type sentTotal struct {
	start      time.Duration // uptime when the total was 0
	highest    int64         // the highest total that was sent since start
	firstAt    int64         // when a part of the total was first sent; 0 if never
	refunded   int64         // units that were sent, were given back later, and have not drained
	refundedAt int64         // when refunded was last reduced by the units that drained
}

// A windowState is the open window of a limit that has windows.
type windowState struct {
	start      int64
	clockAhead int64         // moment.clockAhead when the window started; see moveWindowBack
	earlier    *earlierUnits // nil as long as all are 0
}

// A debtState describes the debt that peers caused, which is the number of units above the capacity. Units become
// pending (record.pending) if the debt is at its maximum, or if their window has not started on this node.
type debtState struct {
	window  int64 // start of the window that the pending units belong to
	deepest int64 // the largest debt since the key last had none
}

// A joinState records which units of peers are already counted, and whether this node's sums can be compared with those
// of peers; see startPeer and applySum.
type joinState struct {
	oldestStart  int64 // start of the oldest total of this node and its peers
	adoptedAt    int64 // when this node last adopted a peer's level; 0 if never
	chargedApart int32 // units charged for peers that were unreachable; see drainedSeparately
	levelGuessed bool  // the adopted level is a guess; see applySum
	totalsVoid   bool  // the key was reset, and totals include units from before the reset
	grewAt       stamp // when this node last sent a total that had grown; see isRecent
}

// An extraState has the parts of a record that most records do not have.
type extraState struct {
	local     *quota.Bound
	liveShare *quota.Bound
	kinds     *otherKinds  // if the key has records of other kinds
	observed  *observation // if another limiter decides, as in region
}

// An observation is the latest decision of another limiter.
type observation struct {
	check      headgate.Check
	level      int64 // units consumed
	observedAt int64
}

// time converts now to the clock that the record's limit uses.
func (r *record) time(now moment) int64 { return now.clockOf(r.plan, r.offset) }

// advance updates a record to the time now: it ends windows, drains buckets, and charges pending units if possible.
func (l *Ledger) advance(r *record, now moment) {
	at := r.time(now)
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
			r.restartTotal(now)
			if r.debt.window < w {
				r.pending = 0 // a debt ends with its window, except for the units that are carried
			}
			if carried := r.window.units().carried; carried > 0 {
				r.chargeCarried(carried, now)
				r.status.sendLevel = r.status.sendLevel || l.pulls // nodes that join may read no note of earlier windows
			}
		}
		if r.pending > 0 && r.debt.window <= r.window.start {
			r.pending = r.chargeBounded(r.pending, now)
		}
	case r.plan.IsBucket():
		if r.pending > 0 && at > r.emptyAt {
			r.drainPending(at)
		}
		if at > r.emptyAt {
			r.emptyTime += at - r.emptyAt
			r.emptyAt = at
			r.debt.deepest, r.join.levelGuessed, r.join.chargedApart = 0, false, 0
			if !r.limitReplaced() {
				r.extra.kinds = nil
			}
			if r.total > 0 && r.delivered == r.total && at-r.requestedAt >= l.options.Idle.Microseconds() {
				r.restartTotal(now)
			}
		}
		if r.pending > 0 {
			r.pending = r.chargeBounded(r.pending, now)
		}
	}
}

// drainPending drains pending units from the time when the bucket became empty, as if they had been in the bucket.
func (r *record) drainPending(at int64) {
	drained := r.plan.DrainedOf(r.pending, at-r.emptyAt)
	r.pending -= drained
	r.emptyAt += r.plan.TimeFor(drained)
	r.usage = quota.Counter{}
	d := r.usage.Charge(r.plan, r.emptyAt, min(r.pending, headgate.MaxCount))
	r.pending -= d.Receipt.Units
	r.emptyAt += r.plan.TimeFor(d.Receipt.Units)
	r.changedAt = at
}

// chargeBounded charges n units of peers until the debt is at its maximum. It returns the number of uncharged units.
func (r *record) chargeBounded(n int64, now moment) (uncharged int64) {
	r.changedAt = max(r.time(now), r.window.start) // not in the window before, if the clock was set back
	d := r.usage.Charge(r.plan, r.changedAt, min(n, headgate.MaxCount))
	r.updateEmptyAt(&d, now)
	return n - d.Receipt.Units
}

// restartTotal starts the total of a record again at 0.
func (r *record) restartTotal(now moment) {
	r.sent.start = max(now.uptime.Truncate(time.Microsecond), r.sent.start+time.Microsecond)
	r.total, r.delivered, r.sent.highest, r.sent.firstAt, r.sent.refunded = 0, 0, 0, 0, 0
	r.status.startedByReset, r.status.hasRefund = false, false
}

// reset clears the consumption of all nodes.
func (r *record) reset(now moment) {
	r.usage = quota.Counter{}
	if r.extra.local != nil {
		r.extra.local.Counter = quota.Counter{}
	}
	r.extra.liveShare = nil
	r.pending, r.status.denied, r.status.noEviction, r.join.totalsVoid = 0, false, false, true
	r.window.earlier = nil
	r.forgetMoved()
	r.emptyAt = r.time(now)
	r.forgetEmptyTime()
}

// forgetEmptyTime clears the time for which the bucket was empty.
func (r *record) forgetEmptyTime() {
	r.emptyTime = 0
	for i := range r.peers {
		r.peers[i].emptyTime, r.peers[i].emptyTimeWhenEqual = 0, 0
	}
}

// tryTake takes n units if all counters of the record allow that, and sets d to the decision.
func (l *Ledger) tryTake(r *record, n int64, now moment, d *headgate.Decision) bool {
	at := r.time(now)
	extra := r.hasExtraCounters()
	if extra && !r.allowedByExtraCounters(n, at) {
		*d = r.peek(n, now)
		return false
	}
	var lease uint64
	if r.plan.Kind == algorithm.KindLeases {
		lease = l.options.Rand()>>11 | 1 // 53 random bits, which every store can represent, and not 0
	}
	if !r.usage.Take(r.plan, at, n, lease, d) {
		r.includePending(d, n)
		if extra {
			r.applyExtraCounters(d, n, at)
		}
		return false
	}
	if extra {
		r.addToExtraCounters(n, at)
	}
	return true
}

// peek returns the decision on n units without taking them. For 0 units the decision describes the state of the key.
func (r *record) peek(n int64, now moment) headgate.Decision {
	d := r.usage.Decide(r.plan, r.time(now), n)
	r.includePending(&d, n)
	r.applyExtraCounters(&d, n, r.time(now))
	return d
}

// includePending corrects a decision on n units for pending units, which r.usage does not contain. For a limit with
// windows, it adds the wait that carried units cause.
func (r *record) includePending(d *headgate.Decision, n int64) {
	if r.plan.HasWindows() {
		if !d.Allowed && r.carries() {
			r.addCarriedWait(d, n)
		}
		return
	}
	if r.pending == 0 {
		return
	}
	pendingTime := time.Duration(r.plan.TimeFor(r.pending)) * time.Microsecond
	d.Remaining -= r.pending
	d.ResetAfter += pendingTime
	if !d.Allowed && d.RetryAfter != headgate.Never {
		d.RetryAfter += pendingTime
	}
}

// deny records a denial of n units.
func (r *record) deny(n int64, now moment) {
	r.status.denied = true
	if at := r.time(now); n <= r.plan.Capacity() && r.usage.Deny(r.plan, at) {
		r.changedAt = at
	}
}

// charge takes n units regardless of the limit, up to the maximum debt.
func (r *record) charge(n int64, now moment) headgate.Decision {
	d := r.usage.Charge(r.plan, r.time(now), n)
	r.changedAt = r.time(now)
	r.addToExtraCounters(d.Receipt.Units, r.time(now))
	return d
}

// countConsumed adds units that this node consumed to the total, and queues the record to be sent.
func (l *Ledger) countConsumed(sh *shard, r *record, n int64, now moment) {
	if !r.plan.Shared {
		return
	}
	if r.status.hasRefund {
		n -= r.useRefund(n, r.time(now))
	}
	r.total += n
	l.queueChange(sh, r)
}

// useRefund returns how many of n newly consumed units need not be sent, because peers still count units that this node
// sent and later gave back. The number of such units decreases as they drain on the peers.
func (r *record) useRefund(n, at int64) int64 {
	if r.plan.IsBucket() {
		r.sent.refunded -= r.plan.DrainedOf(r.sent.refunded, at-r.sent.refundedAt)
	}
	r.sent.refundedAt = at
	n = min(n, r.sent.refunded)
	r.sent.refunded -= n
	r.status.hasRefund = r.sent.refunded > 0
	return n
}

// giveBack returns n units that this node took under a plan. Units that were not sent are subtracted from the total.
// The others become refunded units; see useRefund.
func (r *record) giveBack(takenUnder *quota.Plan, n int64, receipt headgate.Receipt, now moment) {
	at := r.time(now)
	before := r.usage.Decide(r.plan, at, 0).Remaining
	r.usage.Give(r.plan, takenUnder, at, n, receipt)
	r.changedAt = at
	for _, c := range r.extraCounters() {
		if c != nil {
			c.Give(c.Plan, takenUnder, at, n, receipt)
		}
	}
	d := r.usage.Decide(r.plan, at, 0)
	r.updateEmptyAt(&d, now)
	r.status.denied = false
	if !r.plan.Shared {
		return
	}
	returned := d.Remaining - before
	unsent := min(returned, r.total-r.sent.highest)
	r.total -= unsent
	r.delivered = min(r.delivered, r.total)
	if returned -= unsent; returned > 0 {
		r.useRefund(0, at) // only drains earlier refunds
		r.sent.refunded, r.status.hasRefund = r.sent.refunded+returned, true
	}
}

// updateEmptyAt sets the time when a bucket will be empty, from the latest decision on it.
func (r *record) updateEmptyAt(d *headgate.Decision, now moment) {
	if r.plan.IsBucket() {
		r.emptyAt = r.time(now) + d.ResetAfter.Microseconds()
	}
}

// level returns the number of undrained units that all nodes consumed, including pending units of the open window.
func (r *record) level(now moment) int64 {
	level := r.usage.Level(r.plan, r.time(now))
	if !r.plan.HasWindows() || r.debt.window <= r.window.start {
		level += r.pending
	}
	return level
}

// idle reports whether a record is drained and has nothing to send.
func (r *record) idle(now moment) bool {
	return r.pending == 0 && r.total == r.delivered && !r.status.sendLevel && r.drained(now)
}

// drained reports whether all consumed units have drained or are of windows that do not count any more.
func (r *record) drained(now moment) bool {
	if r.plan.IsBucket() {
		return r.emptyAt <= r.time(now)
	}
	return r.usage.Decide(r.plan, r.time(now), 0).ResetAfter == 0
}

// tallyToSend returns the tally of a record, and marks its total as known to peers.
func (l *Ledger) tallyToSend(r *record, now moment) tally.Tally {
	if r.sent.firstAt == 0 && r.total > 0 {
		r.sent.firstAt = r.time(now)
	}
	if r.total != r.sent.highest {
		r.join.grewAt = stampOf(r.time(now))
	}
	t := r.tally(now)
	t.KnownUnits, r.sent.highest = r.sent.highest, r.total
	l.addSum(&t, r, now)
	return t
}

// tally returns the tally of a record without the fields that tallyToSend adds.
func (r *record) tally(now moment) tally.Tally {
	t := tally.Tally{
		Key: r.key, Limit: r.plan.Limit, Start: r.sent.start, Total: r.total, Level: r.level(now),
		Offset: r.offset, Reset: r.status.startedByReset,
		Delivery: tally.Delivery{
			Delivered: r.delivered, SendLevel: r.status.sendLevel,
			PeersUnknown: r.status.peersUnknown, ReadAllNotes: r.exchangedAt == 0, Added: r.addedAt,
		},
	}
	if r.plan.HasWindows() {
		t.Window, t.Carried = r.window.start, r.window.units().carried+r.movedUnits()
		t.Previous, t.AllPrevious = r.window.units().ownPrevious, r.consumedBefore()
	}
	return t
}
