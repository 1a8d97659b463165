package ledger

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/server/fleet"
	"github.com/headgate/headgate/server/fleet/internal/quota"
)

// MaxPeers is the number of peers that a record remembers. If there are more, the one that was updated least recently
// is replaced, and starts again at its next update: units that it consumes until then are not counted.
const MaxPeers = 255

// Apply charges the units that a peer consumed and that are not counted yet. uptime is the age of the peer's ledger
// when it sent the tallies. The order of calls does not matter, and repeated calls have no effect.
//
// The first tally of a peer counts in full if the peer's record is younger than ours. Otherwise this node is the
// newcomer, and adopts the peer's level.
func (l *Ledger) Apply(from fleet.Peer, uptime time.Duration, tallies []Tally) {
	if l.closed.Load() {
		return
	}
	now := l.now()
	a := delivery{uptime: uptime}
	a.slot, a.gen = l.peers.Slot(from, now.micros)
	a.lag = l.peers.Lag(a.slot, now.uptime, uptime)
	a.late = a.lag + l.options.Lag/4
	for i := range tallies {
		t := &tallies[i]
		if reason := t.Impossible(uptime); reason != "" {
			l.refuse(from, reason, now)
			continue
		}
		sh := l.shardOf(&t.Key)
		sh.mu.Lock()
		reason := l.applyTally(sh, t, &a, now)
		sh.mu.Unlock()
		if reason != "" {
			l.refuse(from, reason, now)
		}
		age := t.Age
		if age == 0 {
			age = a.lag
		}
		l.counters.addLag(age, now.uptime)
	}
}

// A delivery describes how tallies were received.
type delivery struct {
	slot      int32 // of the peer
	gen       uint32
	uptime    time.Duration // of the peer's ledger when it sent them
	lag, late time.Duration // the minimum delay, and the usual maximum
}

// Impossible returns why a tally cannot be true, or "".
func (t *Tally) Impossible(uptime time.Duration) string {
	switch {
	case t.Total < 0:
		return "a negative total"
	case t.Level < 0 || t.Carried < 0:
		return "a negative level"
	case t.Start < 0 || t.Start > uptime+time.Second: // two records may have to start in the same microsecond
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
	reasonDeep    = "a level deeper than any debt"
	reasonNoLimit = "an invalid limit"
)

// applyTally applies one tally. It returns a reason if it refuses a part of it.
func (l *Ledger) applyTally(sh *shard, t *Tally, a *delivery, now moment) (reason string) {
	age := max(0, a.uptime-t.Start) + t.Age
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
		return l.applyToReplaced(r, t, a, age, now)
	}
	t = r.alignWindow(t, now)
	s, first := r.peerTotal(a.slot, a.gen, l)
	received := t
	t, reason = r.plausible(t, first, age)
	known := s.total
	switch {
	case first || t.Start > s.start:
		if t.Reset && age < now.uptime-r.addedAt+l.options.Lag {
			r.reset(now)
		}
		known = l.meetPeer(r, s, t, first, age, a.late, now)
		if first {
			s.emptyTime, s.updatedAt = 0, r.at(now)-min(age, l.observedFor(r, now)).Microseconds()
		}
		s.impossible = false
	case t.Start < s.start:
		return "" // late, and its record has ended
	case t.Total < known && a.uptime < s.sentAt:
		return "" // late
	case t.Total < known:
		s.impossible = false // the total is plausible again
		return ReasonFell
	default:
		known += r.alreadyCounted(t.Total-known, s.updatedAt, now)
	}
	gap := a.uptime - s.sentAt
	if first || t.Start > s.start {
		gap = age
	}
	growth := t.Total - known
	most := headgate.MaxDebt*r.plan.Capacity() + r.plan.UnitsIn(2*(r.at(now)-s.updatedAt), headgate.MaxCount)
	tooMuch := growth > most
	if tooMuch {
		growth, reason = most, ReasonLeaped
		if s.impossible {
			growth = 0 // it was charged when it was first received
		}
	}
	switch {
	case !t.Recent:
		s.grewAt = 0
	case t.Total > s.total || t.Start > s.start:
		s.grewAt = r.at(now) - a.lag.Microseconds()
	}
	// The total becomes what was charged, so that plausible totals count again as soon as they are above it.
	s.start, s.total, s.impossible = t.Start, known+growth, tooMuch
	s.updatedAt = r.at(now)
	if l.self != 0 {
		s.updatedAt -= a.lag.Microseconds() // packets that waited during a stall arrive all at once
	}
	s.pastWindow, s.nextWindow = r.plan.HasWindows() && t.Window < r.window.start, r.plan.HasWindows() &&
		t.Window > r.window.start
	l.counters.applied.Add(max(0, growth))
	if r.optional.share != nil && !s.pastWindow {
		r.optional.share.add(growth, r.at(now))
	}
	charged := growth
	if r.plan.IsBucket() {
		charged -= r.drainedWhileApart(s, t, growth, gap)
	}
	if tooMuch || t != received || !l.applySum(sh, r, s, t, charged, a.lag, now) {
		l.chargeUpdate(r, s, t, charged, age, now)
	}
	if r.plan.HasWindows() && t.Window == r.window.start && !r.tookOver() {
		r.raiseCarried(t.Carried, now)
	}
	// The bucket may have been empty since the tally was sent because of units that the peer does not know yet.
	s.emptyTime = max(min(s.emptyTime, r.emptyTime), r.emptyTime-a.lag.Microseconds())
	if !first && a.uptime >= s.sentAt && r.plan.IsBucket() {
		late := a.late
		if t.Age > 0 {
			late = t.Age
		}
		l.catchUp(sh, r, s, t, late, now)
	}
	s.sentAt = max(a.uptime, s.sentAt)
	return reason
}

// plausible returns the part of a tally that can be true, and a reason if that is not all. The first level of a peer,
// which may be adopted, can be no more than the peer could have charged and consumed since its record started.
func (r *record) plausible(t *Tally, first bool, age time.Duration) (_ *Tally, reason string) {
	deepest := (1 + headgate.MaxDebt) * r.plan.Capacity()
	if t.Level > deepest+r.maxOwed() {
		reason = reasonDeep
	}
	if !first || t.Level <= deepest && t.Total <= deepest {
		return t, reason
	}
	cut := *t
	cut.Level = min(cut.Level, deepest)
	if most := deepest + r.plan.UnitsIn(2*age.Microseconds(), headgate.MaxCount); cut.Total > most {
		cut.Total, reason = most, ReasonLeaped
	}
	return &cut, reason
}

// alignWindow converts a tally of windows with another period or alignment to our windows: to the open one if theirs is
// open.
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

// addFromTally adds a record for a key that a peer consumed. It returns nil if there is no need or no room for it, or
// if the tally is wrong, with a reason.
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
		l.counters.unheard.Add(1)
		return nil, ""
	}
	if l.self == 0 {
		r.emptyTime = min(age, l.observedFor(r, now)).Microseconds() // the bucket was empty before
	}
	return r, ""
}

// observedFor returns for how long this node would have received updates of a key.
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
func (l *Ledger) chargeUpdate(r *record, s *peerTotal, t *Tally, units int64, age time.Duration, now moment) {
	if units <= 0 {
		return
	}
	if !r.plan.HasWindows() {
		if l.self == 0 {
			units -= r.drainedWhileEmpty(s, t, units, age)
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
func (r *record) drainedWhileEmpty(s *peerTotal, t *Tally, units int64, age time.Duration) int64 {
	empty := min(r.emptyTime-s.emptyTime, age.Microseconds())
	if empty <= 0 {
		return 0
	}
	still := t.Level - r.plan.UnitsIn(t.Age.Microseconds(), t.Level)
	drained := r.plan.UnitsIn(empty, max(0, units-max(0, still)))
	r.emptyTime -= r.plan.TimeFor(drained)
	return drained
}

// chargePeers charges units that peers consumed in a window, or keeps them as owed until they can be charged.
func (l *Ledger) chargePeers(r *record, n, window int64, now moment) {
	if n <= 0 {
		return
	}
	if window > r.window.start {
		if r.debt.window != window {
			r.owed = 0
		}
		r.owed, r.debt.window = min(r.owed+n, r.maxOwed()), window
		return
	}
	d := r.consumed.Charge(r.plan, r.at(now), min(n, headgate.MaxCount))
	r.changedAt = r.at(now)
	r.setEmptyAt(&d, now)
	if rest := n - d.Receipt.Units; rest > 0 {
		r.owed, r.debt.window = min(r.owed+rest, r.maxOwed()), r.window.start
	}
	if debt := r.level(now) - r.plan.Capacity(); debt > r.debt.deepest {
		l.counters.over(debt, debt-r.debt.deepest)
		r.debt.deepest = debt
	}
}

// maxOwed bounds the units kept beyond the deepest debt: as if MaxPeers nodes had each taken twice what they can.
func (r *record) maxOwed() int64 { return 2 * MaxPeers * r.plan.Capacity() }

// peerTotal returns the entry of a peer, and whether it is new.
func (r *record) peerTotal(slot int32, gen uint32, l *Ledger) (*peerTotal, bool) {
	oldest := 0
	for i := range r.peers {
		s := &r.peers[i]
		if s.slot == slot {
			if s.gen == gen {
				return s, false
			}
			*s = peerTotal{slot: slot, gen: gen}
			return s, true
		}
		if s.updatedAt < r.peers[oldest].updatedAt {
			oldest = i
		}
	}
	if len(r.peers) < MaxPeers {
		r.peers = append(r.peers, peerTotal{slot: slot, gen: gen})
		return &r.peers[len(r.peers)-1], true
	}
	l.counters.crowded.Add(1)
	r.peers[oldest] = peerTotal{slot: slot, gen: gen}
	return &r.peers[oldest], true
}

// Refuse reports a tally that cannot be true, for limiters that check tallies themselves.
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
