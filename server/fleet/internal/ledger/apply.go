package ledger

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/quota"
	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// MaxPeers is the maximum number of peers in a record. A further peer replaces the peer whose latest update is the
// oldest. Units that the replaced peer consumes before its next update are not counted.
const MaxPeers = 255

// Apply charges the units that a peer consumed and that are not charged yet. uptime is the age of the peer's ledger
// when it sent the tallies. The order of calls does not matter, and repeated calls have no effect.
//
// If the peer's record of a key is newer than this node's, all units of its first tally are charged. If this node's
// record is newer, this node adopts the peer's level instead, because some of the units have drained.
func (l *Ledger) Apply(from fleet.Peer, uptime time.Duration, tallies []tally.Tally) {
	if l.closed.Load() {
		return
	}
	now := l.now()
	in := arrival{uptime: uptime}
	in.slot, in.gen = l.peers.Slot(from, now.micros)
	in.lag = l.peers.Lag(in.slot, now.uptime, uptime)
	var ages ageSum
	for i := range tallies {
		t := &tallies[i]
		if reason := t.WhyImplausible(uptime); reason != "" {
			l.Refuse(from, reason)
			continue
		}
		sh := l.shardOf(&t.Key)
		sh.mu.Lock()
		reason := l.applyTally(sh, t, &in, now)
		sh.mu.Unlock()
		if reason != "" {
			l.Refuse(from, reason)
		}
		ages.add(cmp.Or(t.MaxAge, in.lag))
	}
	l.counters.addLag(&ages, now.uptime)
}

// An arrival describes tallies that were received together from one peer.
type arrival struct {
	slot   int32         // index of the peer in Ledger.peers
	gen    uint32        // generation of the slot: it changes when another peer gets the slot
	uptime time.Duration // uptime of the peer's ledger when it sent the tallies
	lag    time.Duration // delay of these tallies, compared with the fastest tallies of the peer
}

// Reasons to refuse a tally, in addition to those of tally.WhyImplausible.
const (
	reasonLevel   = "a level above the largest possible debt"
	reasonNoLimit = "an invalid limit"
)

// An update is a tally that is being applied to a record.
type update struct {
	*tally.Tally
	*arrival
	peer       *peerTotal
	firstTally bool          // nothing was known of the peer
	newRecord  bool          // nothing was known of the peer's record
	reduced    bool          // the received tally was implausible, and was reduced to a plausible one
	age        time.Duration // age of the peer's record
	silence    time.Duration // time between the peer's previous tally and this one
	units      int64         // units of the tally that are not charged yet
	missed     int64         // units of the window before that of the tally that are not charged yet
}

// applyTally charges the units of a tally that are not charged yet. If it refuses a part of them, it returns the
// reason.
func (l *Ledger) applyTally(sh *shard, t *tally.Tally, in *arrival, now moment) (reason string) {
	u := update{Tally: t, arrival: in, age: max(0, in.uptime-t.Start) + t.MaxAge}
	r := sh.records[t.Key]
	if r == nil {
		if r, reason = l.addFromTally(sh, &u, now); r == nil {
			return reason
		}
	}
	if !r.plan.Shared {
		return reasonNoLimit
	}
	r.updatedAt = r.time(now)
	l.advance(r, now)
	u.peer, u.firstTally = r.peerTotal(in.slot, in.gen, l)
	u.newRecord = u.firstTally || t.Start > u.peer.start
	r.alignWindow(&u, now)
	reason = r.cutTally(&u)
	refused, ok := l.findNewUnits(r, &u, now)
	if !ok {
		return refused
	}
	reason = cmp.Or(refused, reason)
	if u.units > 0 {
		l.counters.applied.Add(u.units)
	}
	if r.limitReplaced() {
		l.chargeReplacement(r, &u, now)
	} else {
		l.chargeUpdate(sh, r, &u, now)
	}
	u.peer.sentAt = max(u.uptime, u.peer.sentAt)
	return reason
}

// cutTally reduces a peer's first tally to plausible numbers. The level may be adopted, so it must not be above the
// largest possible debt. The total must not be above the units that could be consumed since the record started. If a
// number is implausible, cutTally returns the reason.
func (r *record) cutTally(u *update) (reason string) {
	maxLevel := r.maxLevel()
	if u.Level > maxLevel+r.maxPending() {
		reason = reasonLevel
	}
	if !u.firstTally || u.Level <= maxLevel && u.Total <= maxLevel {
		return reason
	}
	reduced := *u.Tally
	reduced.Level = min(reduced.Level, maxLevel)
	if maxTotal := maxLevel + r.plan.UnitsIn(2*u.age.Microseconds()); reduced.Total > maxTotal {
		reduced.Total, reason = maxTotal, tally.ReasonGrewTooMuch
	}
	u.Tally, u.reduced = &reduced, true
	return reason
}

// findNewUnits computes the units of an update that are not charged yet, and stores the peer's new total. If the number
// is implausible, it returns the reason. ok is false if the total is below the known total, which means that the update
// is late or wrong.
func (l *Ledger) findNewUnits(r *record, u *update, now moment) (reason string, ok bool) {
	peer := u.peer
	known := peer.total // the part of the peer's total that is charged
	u.silence = u.uptime - peer.sentAt
	switch {
	case u.newRecord:
		u.findMissed(r)
		if u.Reset && u.age < now.uptime-r.addedAt+l.options.Lag {
			r.current().reset(now)
		}
		known = l.startPeer(r, u, now)
		if u.firstTally {
			peer.emptyTime, peer.updatedAt = 0, r.time(now)-min(u.age, l.observedFor(r, now)).Microseconds()
		}
		peer.impossible, u.silence = false, u.age
	case u.Start < peer.start, u.Total < known && u.uptime < peer.sentAt:
		return "", false
	case u.Total < known:
		peer.impossible = false // the total is plausible again
		return tally.ReasonDecreased, false
	default:
		known += r.alreadyCounted(u.Total-known, peer.updatedAt, now)
	}
	u.units = u.Total - known
	maxGrowth := headgate.MaxDebt*r.plan.Capacity() + r.plan.UnitsIn(2*(r.time(now)-peer.updatedAt))
	tooMuch := u.units > maxGrowth
	if tooMuch {
		u.units, u.reduced, reason = maxGrowth, true, tally.ReasonGrewTooMuch
		if peer.impossible {
			u.units = 0 // the previous tally was impossible too, and the maximum was charged then
		}
	}
	switch {
	case !u.Recent:
		peer.grewAt = 0
	case u.newRecord || u.Total > peer.total:
		peer.grewAt = r.time(now) - max(u.lag, u.MaxAge).Microseconds()
	}
	// Store the charged total instead of the received one, so that units of later plausible totals are charged.
	peer.start, peer.total, peer.impossible = u.Start, known+u.units, tooMuch
	// Subtract the delay, because delayed updates may arrive all at the same time.
	peer.updatedAt = r.time(now) - max(u.lag, u.MaxAge).Microseconds()
	peer.setWindow(r, u.Window)
	return reason, true
}

// chargeUpdate charges the new units of an update, and compares the peer's level with this node's.
func (l *Ledger) chargeUpdate(sh *shard, r *record, u *update, now moment) {
	peer, units := u.peer, u.units
	if r.extra.liveShare != nil && !peer.pastWindow() {
		r.extra.liveShare.Add(units, r.time(now))
	}
	if r.plan.IsBucket() && (u.silence >= unreachableAfter || u.firstTally && l.pulls) {
		units -= r.drainedSeparately(u)
	}
	if u.reduced || !l.applySum(sh, r, u, units, now) {
		l.chargeWindow(r, u, units, now)
	}
	l.chargeEarlier(r, u, now)
	// Empty time since the tally was sent must count for the peer's next update, which may have units of that time.
	peer.emptyTime = max(min(peer.emptyTime, r.emptyTime), r.emptyTime-u.lag.Microseconds())
	if !u.firstTally && u.uptime >= peer.sentAt && r.plan.IsBucket() {
		l.catchUp(sh, r, u, now)
	}
}

// chargeReplacement charges the new units of an update to the record that replaced r.
func (l *Ledger) chargeReplacement(r *record, u *update, now moment) {
	if u.peer.pastWindow() {
		return
	}
	current := r.current()
	l.advance(current, now)
	if current.extra.liveShare != nil {
		current.extra.liveShare.Add(u.units, current.time(now))
	}
	l.chargePeers(current, u.units, current.window.start, now)
	if current.extra.kinds == nil {
		current.extra.kinds = &otherKinds{}
	}
}

// alignWindow converts a tally whose windows have another period or offset than this record's. If the peer's window is
// still open, the units count in this record's open window, otherwise in the window before.
func (r *record) alignWindow(u *update, now moment) {
	if !r.plan.HasWindows() {
		return
	}
	period := u.Limit.Period.Microseconds()
	if period == 0 || period == r.plan.Period && u.Offset == r.offset {
		return
	}
	aligned := *u.Tally
	aligned.Window, aligned.Previous, aligned.AllPrevious = r.window.start, 0, 0
	if u.Window+period <= r.time(now)+r.offset-u.Offset {
		aligned.Window -= r.plan.Period
	}
	u.Tally = &aligned
}

// addFromTally adds a record for a key that a peer consumed. It returns nil if the tally has no limit, or if the ledger
// is full. It returns nil and a reason if the tally is invalid.
func (l *Ledger) addFromTally(sh *shard, u *update, now moment) (r *record, reason string) {
	t := u.Tally
	if t.Limit == (headgate.Limit{}) {
		return nil, ""
	}
	p, err := l.plans.Get(&t.Limit, quota.NewPlan)
	if err != nil || !p.Shared || t.Offset < 0 || t.Offset >= p.Period || t.Offset > 0 && !p.Limit.Staggered {
		return nil, reasonNoLimit
	}
	r, err = l.add(sh, t.Key, p, t.Offset, now)
	if errors.Is(err, headgate.ErrFull) {
		l.counters.ignored.Add(1)
		return nil, ""
	}
	if l.pulls {
		r.emptyTime = min(u.age, l.observedFor(r, now)).Microseconds() // on this node, the bucket was empty until now
	}
	return r, ""
}

// observedFor returns how long this node has been able to receive updates of a key.
func (l *Ledger) observedFor(r *record, now moment) time.Duration {
	if l.pulls {
		return now.uptime - r.addedAt
	}
	if evictedAt := time.Duration(l.evictedAt.Load()); evictedAt != 0 {
		return now.uptime - evictedAt
	}
	return now.uptime
}

// chargeWindow charges units of an update. If the limit has windows, it charges them in the window of the update.
func (l *Ledger) chargeWindow(r *record, u *update, units int64, now moment) {
	switch w := r.plan.WindowOf(u.Window); {
	case units <= 0:
	case !r.plan.HasWindows(), w > r.window.start+r.plan.Period: // in the latter case, the peer's clock is wrong
		l.chargePeers(r, units, r.window.start, now)
	case w >= r.window.start:
		l.chargePeers(r, units, w, now)
	case w == r.window.start-r.plan.Period && (r.carries() || r.plan.Kind == algorithm.KindSlidingWindow):
		r.chargePastWindow(u.Total-units, u.Total, now)
	}
}

// chargePeers charges units that peers consumed in a window. Units that cannot be charged yet become pending.
func (l *Ledger) chargePeers(r *record, n, window int64, now moment) {
	if n <= 0 {
		return
	}
	if window > r.window.start {
		r.addPending(n, window)
		return
	}
	if uncharged := r.chargeBounded(n, now); uncharged > 0 {
		r.pending, r.debt.window = min(r.pending+uncharged, r.maxPending()), r.window.start
	}
	if debt := r.level(now) - r.plan.Capacity(); debt > r.debt.deepest {
		l.counters.addOver(debt, debt-r.debt.deepest)
		r.debt.deepest = debt
	}
}

// addPending adds units that cannot be charged yet, because their window has not started here or because the debt is at
// its maximum. They replace the pending units of another window.
func (r *record) addPending(n, window int64) {
	if r.debt.window != window {
		r.pending = 0
	}
	r.pending, r.debt.window = min(r.pending+n, r.maxPending()), window
}

// maxPending returns the maximum number of pending units: twice the capacity for each of MaxPeers peers.
func (r *record) maxPending() int64 { return 2 * MaxPeers * r.plan.Capacity() }

// peerTotal returns the entry of a peer, and whether it is new.
func (r *record) peerTotal(slot int32, gen uint32, l *Ledger) (*peerTotal, bool) {
	i := min(int(slot), len(r.peers)-1) // entries are sorted by distinct slots, so the index is not above the slot
	for i >= 0 && r.peers[i].slot > slot {
		i--
	}
	if i >= 0 && r.peers[i].slot == slot {
		if r.peers[i].gen == gen {
			return &r.peers[i], false
		}
		r.peers[i] = peerTotal{slot: slot, gen: gen}
		return &r.peers[i], true
	}
	if len(r.peers) == MaxPeers {
		oldest := r.oldestPeer()
		l.counters.peersDropped.Add(1)
		r.peers = slices.Delete(r.peers, oldest, oldest+1)
		if oldest <= i {
			i--
		}
	}
	r.peers = slices.Insert(r.peers, i+1, peerTotal{slot: slot, gen: gen})
	return &r.peers[i+1], true
}

// oldestPeer returns the index of the peer whose latest update is the oldest.
func (r *record) oldestPeer() int {
	oldest := 0
	for i := range r.peers {
		if r.peers[i].updatedAt < r.peers[oldest].updatedAt {
			oldest = i
		}
	}
	return oldest
}

// Refuse counts an implausible tally, and reports at most one a second. Limiters that check tallies themselves also
// call it.
func (l *Ledger) Refuse(from fleet.Peer, reason string) {
	l.counters.refused.Add(1)
	now, last := int64(l.clock.Elapsed()), l.counters.reportedAt.Load()
	if last != 0 && now-last < int64(time.Second) {
		return
	}
	if l.counters.reportedAt.CompareAndSwap(last, max(1, now)) {
		l.options.OnRefused(from, reason)
	}
}
