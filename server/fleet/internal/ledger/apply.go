package ledger

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// MaxPeers is the most peers that a record remembers. A further peer replaces the one whose latest update is the
// oldest. Units that the replaced peer consumes before its next update are not counted.
const MaxPeers = 255

// Apply charges units that a peer consumed and that are not charged yet. uptime is the age of the peer's ledger when it
// sent the tallies. The order of calls does not matter, and repeated calls have no effect.
//
// The first tally of a peer counts in full if the peer's record is younger than ours. Otherwise this node is the
// newcomer, and adopts the peer's level.
func (l *Ledger) Apply(from fleet.Peer, uptime time.Duration, tallies []Tally) {
	if l.closed.Load() {
		return
	}
	now := l.now()
	in := arrival{uptime: uptime}
	in.slot, in.gen = l.peers.Slot(from, now.micros)
	in.lag = l.peers.Lag(in.slot, now.uptime, uptime)
	in.late = in.lag + l.options.Lag/4
	for i := range tallies {
		t := &tallies[i]
		if reason := t.Impossible(uptime); reason != "" {
			l.refuse(from, reason, now)
			continue
		}
		sh := l.shardOf(&t.Key)
		sh.mu.Lock()
		reason := l.applyTally(sh, t, &in, now)
		sh.mu.Unlock()
		if reason != "" {
			l.refuse(from, reason, now)
		}
		age := t.Age
		if age == 0 {
			age = in.lag
		}
		l.counters.addLag(age, now.uptime)
	}
}

// An arrival is when and from which peer tallies were received.
type arrival struct {
	slot      int32         // of the peer in Ledger.peers
	gen       uint32        // of the slot
	uptime    time.Duration // of the peer's ledger when it sent the tallies
	lag, late time.Duration // the shortest delay of tallies from this peer, and usually the longest
}

// Impossible returns why a tally cannot be true, or "".
func (t *Tally) Impossible(uptime time.Duration) string {
	switch {
	case t.Total < 0:
		return "a negative total"
	case t.Level < 0 || t.Carried < 0:
		return "a negative level"
	case t.Start < 0 || t.Start > uptime+time.Second: // records that start in the same microsecond get later starts
		return "a record from the future"
	case t.Age < 0:
		return "an update from the future"
	}
	return ""
}

// Reasons to refuse a tally.
const (
	ReasonFell    = "a total that fell"
	ReasonLeaped  = "a total that grew more than possible"
	reasonLevel   = "a level above the largest possible debt"
	reasonNoLimit = "an invalid limit"
)

// applyTally applies one tally. It returns a reason if it refuses a part of it.
func (l *Ledger) applyTally(sh *shard, t *Tally, in *arrival, now moment) (reason string) {
	age := max(0, in.uptime-t.Start) + t.Age
	r := sh.records[t.Key]
	if r == nil {
		if r, reason = l.addFromTally(sh, t, age, now); r == nil {
			return reason
		}
	}
	if !r.plan.Shared {
		return reasonNoLimit
	}
	r.updatedAt = r.at(now)
	l.advance(r, now)
	if r.replaced() {
		return l.applyToReplaced(r, t, in, age, now)
	}
	t = r.alignWindow(t, now)
	peer, first := r.peerTotal(in.slot, in.gen, l)
	received := t
	t, reason = r.plausiblePart(t, first, age)
	known := peer.total // how much of the peer's total is charged here
	switch {
	case first || t.Start > peer.start:
		if t.Reset && age < now.uptime-r.addedAt+l.options.Lag {
			r.reset(now)
		}
		known = l.meetPeer(r, peer, t, first, age, in.late, now)
		if first {
			peer.emptyTime, peer.updatedAt = 0, r.at(now)-min(age, l.observedFor(r, now)).Microseconds()
		}
		peer.impossible = false
	case t.Start < peer.start:
		return "" // a late tally of an earlier record
	case t.Total < known && in.uptime < peer.sentAt:
		return "" // late
	case t.Total < known:
		peer.impossible = false // the total is plausible again
		return ReasonFell
	default:
		known += r.alreadyCounted(t.Total-known, peer.updatedAt, now)
	}
	gap := in.uptime - peer.sentAt
	if first || t.Start > peer.start {
		gap = age
	}
	growth := t.Total - known
	most := headgate.MaxDebt*r.plan.Capacity() + r.plan.UnitsIn(2*(r.at(now)-peer.updatedAt), headgate.MaxCount)
	tooMuch := growth > most
	if tooMuch {
		growth, reason = most, ReasonLeaped
		if peer.impossible {
			growth = 0 // the previous tally was impossible too, and the maximum was charged then
		}
	}
	switch {
	case !t.Recent:
		peer.grewAt = 0
	case t.Total > peer.total || t.Start > peer.start:
		peer.grewAt = r.at(now) - max(in.lag, t.Age).Microseconds()
	}
	// The stored total is the charged one, so that later plausible totals count as soon as they are above it.
	peer.start, peer.total, peer.impossible = t.Start, known+growth, tooMuch
	peer.updatedAt = r.at(now)
	if l.gossips() {
		peer.updatedAt -= in.lag.Microseconds() // packets that waited during a stall arrive all at once
	}
	peer.setWindow(r, t.Window)
	l.counters.applied.Add(max(0, growth))
	if r.optional.share != nil && !peer.pastWindow {
		r.optional.share.add(growth, r.at(now))
	}
	charged := growth
	if r.plan.IsBucket() {
		charged -= r.drainedWhileApart(peer, t, growth, gap)
	}
	if tooMuch || t != received || !l.applySum(sh, r, peer, t, charged, in.lag, now) {
		l.chargeUpdate(r, peer, t, charged, age, now)
	}
	if r.plan.HasWindows() && t.Window == r.window.start && !r.tookOver() {
		r.raiseCarried(t.Carried, now)
	}
	// The bucket may have been empty since the tally was sent because of units that the peer does not know yet.
	peer.emptyTime = max(min(peer.emptyTime, r.emptyTime), r.emptyTime-in.lag.Microseconds())
	if !first && in.uptime >= peer.sentAt && r.plan.IsBucket() {
		late := in.late
		if t.Age > 0 {
			late = t.Age
		}
		l.catchUp(sh, r, peer, t, late, now)
	}
	peer.sentAt = max(in.uptime, peer.sentAt)
	return reason
}

// plausiblePart returns a tally reduced to what can be true, and a reason if that is less. The first level of a peer may
// be adopted, so it must not be above the largest debt, nor the total above what could be consumed since the record
// started.
func (r *record) plausiblePart(t *Tally, first bool, age time.Duration) (_ *Tally, reason string) {
	maxLevel := (1 + headgate.MaxDebt) * r.plan.Capacity()
	if t.Level > maxLevel+r.maxOwed() {
		reason = reasonLevel
	}
	if !first || t.Level <= maxLevel && t.Total <= maxLevel {
		return t, reason
	}
	cut := *t
	cut.Level = min(cut.Level, maxLevel)
	if most := maxLevel + r.plan.UnitsIn(2*age.Microseconds(), headgate.MaxCount); cut.Total > most {
		cut.Total, reason = most, ReasonLeaped
	}
	return &cut, reason
}

// alignWindow converts a tally whose windows have another period or alignment than this record's. It becomes one of the
// open window if the peer's window is still open, otherwise one of the window before.
func (r *record) alignWindow(t *Tally, now moment) *Tally {
	if !r.plan.HasWindows() {
		return t
	}
	period := t.Limit.Period.Microseconds()
	if t.Limit == (headgate.Limit{}) || period == r.plan.Period && t.Offset == r.offset {
		return t
	}
	other := *t
	other.Window = r.window.start
	if t.Window+period <= r.at(now)+r.offset-t.Offset {
		other.Window -= r.plan.Period
	}
	return &other
}

// addFromTally adds a record for a key that a peer consumed. It returns nil if the tally has no limit, if the ledger is
// full, or, with a reason, if the tally is wrong.
func (l *Ledger) addFromTally(sh *shard, t *Tally, age time.Duration, now moment) (r *record, reason string) {
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
	if !l.gossips() {
		r.emptyTime = min(age, l.observedFor(r, now)).Microseconds() // the bucket was empty until now
	}
	return r, ""
}

// observedFor returns for how long this node has been able to receive updates of a key.
func (l *Ledger) observedFor(r *record, now moment) time.Duration {
	if l.asks {
		return now.uptime - r.addedAt
	}
	if forgot := time.Duration(l.evictedAt.Load()); forgot != 0 {
		return now.uptime - forgot
	}
	return now.uptime
}

// chargeUpdate charges units of an update.
func (l *Ledger) chargeUpdate(r *record, peer *peerTotal, t *Tally, units int64, age time.Duration, now moment) {
	if units <= 0 {
		return
	}
	if !r.plan.HasWindows() {
		if !l.gossips() {
			units -= r.drainedWhileEmpty(peer, t, units, age)
		}
		l.chargePeers(r, units, r.window.start, now)
		return
	}
	switch w := r.plan.WindowOf(t.Window); {
	case w > r.window.start+r.plan.Period:
		l.chargePeers(r, units, r.window.start, now) // the peer's clock is wrong
	case w >= r.window.start:
		l.chargePeers(r, units, w, now)
	case r.plan.Kind == algorithm.KindWindows && w >= r.window.start-r.plan.Period:
		r.consumed.ChargePrevious(r.plan, r.window.start, r.at(now), units)
	case r.carries() && w == r.window.start-r.plan.Period:
		r.chargePastWindow(t.Total-units, t.Total, now)
	}
}

// drainedWhileEmpty returns how many of the units have drained while this node's bucket was empty, and subtracts the
// time from emptyTime. Units that the peer reports as still in its bucket have not drained.
func (r *record) drainedWhileEmpty(peer *peerTotal, t *Tally, units int64, age time.Duration) int64 {
	empty := min(r.emptyTime-peer.emptyTime, age.Microseconds())
	if empty <= 0 {
		return 0
	}
	still := t.Level - r.plan.UnitsIn(t.Age.Microseconds(), t.Level)
	drained := r.plan.UnitsIn(empty, max(0, units-max(0, still)))
	r.emptyTime -= r.plan.TimeFor(drained)
	return drained
}

// chargePeers charges units that peers consumed in a window. Those that cannot be charged yet become owed.
func (l *Ledger) chargePeers(r *record, n, window int64, now moment) {
	if n <= 0 {
		return
	}
	if window > r.window.start {
		r.owe(n, window)
		return
	}
	d := r.consumed.Charge(r.plan, r.at(now), min(n, headgate.MaxCount))
	r.changedAt = r.at(now)
	r.setEmptyAt(&d, now)
	if rest := n - d.Receipt.Units; rest > 0 {
		r.owed, r.debt.window = min(r.owed+rest, r.maxOwed()), r.window.start
	}
	if debt := r.level(now) - r.plan.Capacity(); debt > r.debt.deepest {
		l.counters.addOver(debt, debt-r.debt.deepest)
		r.debt.deepest = debt
	}
}

// owe adds units that cannot be charged yet, because they belong to a window or because the debt is at its deepest. They
// replace those of another window.
func (r *record) owe(n, window int64) {
	if r.debt.window != window {
		r.owed = 0
	}
	r.owed, r.debt.window = min(r.owed+n, r.maxOwed()), window
}

// maxOwed returns the most units that are owed: twice the capacity for each of MaxPeers peers.
func (r *record) maxOwed() int64 { return 2 * MaxPeers * r.plan.Capacity() }

// peerTotal returns the entry of a peer, and whether it is new.
func (r *record) peerTotal(slot int32, gen uint32, l *Ledger) (*peerTotal, bool) {
	for i := range r.peers {
		if peer := &r.peers[i]; peer.slot == slot {
			if peer.gen == gen {
				return peer, false
			}
			*peer = peerTotal{slot: slot, gen: gen}
			return peer, true
		}
	}
	if len(r.peers) < MaxPeers {
		r.peers = append(r.peers, peerTotal{slot: slot, gen: gen})
		return &r.peers[len(r.peers)-1], true
	}
	oldest := 0
	for i := range r.peers {
		if r.peers[i].updatedAt < r.peers[oldest].updatedAt {
			oldest = i
		}
	}
	l.counters.peersDropped.Add(1)
	r.peers[oldest] = peerTotal{slot: slot, gen: gen}
	return &r.peers[oldest], true
}

// Refuse counts and reports a tally that cannot be true. It is for limiters that check tallies themselves.
func (l *Ledger) Refuse(from fleet.Peer, reason string) { l.refuse(from, reason, l.now()) }

// refuse counts a tally that cannot be true, and reports it.
func (l *Ledger) refuse(from fleet.Peer, reason string, now moment) {
	l.counters.refused.Add(1)
	last := l.counters.reported.Load()
	if last != 0 && int64(now.uptime)-last < int64(time.Second) {
		return
	}
	if l.counters.reported.CompareAndSwap(last, max(1, int64(now.uptime))) {
		l.options.OnRefused(from, reason)
	}
}
