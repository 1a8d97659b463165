package ledger

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/fleet"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// MaxPeers is of how many other nodes a record knows what they consumed. With more, those heard of least recently make
// room, and begin again when they are heard of again: what they consume until then is not counted.
const MaxPeers = 255

// Apply charges what a peer says it consumed and was not known to have. uptime is for how long there has been the peer's
// ledger, when it said so. The order of calls does not matter, nor does it if one is repeated.
//
// A record that is heard of for the first time is all news if it is younger than our own account; else we are the
// newcomer, and begin where the peer is.
func (l *Ledger) Apply(from fleet.Peer, uptime time.Duration, tallies []Tally) {
	if l.closed.Load() {
		return
	}
	now := l.now()
	a := arrival{uptime: uptime}
	a.place, a.gen = l.peers.place(from, now.micros)
	a.lag = l.peers.lag(a.place, now.uptime, uptime)
	a.late = a.lag + l.options.Lag/4
	for i := range tallies {
		t := &tallies[i]
		if why := t.Impossible(uptime); why != "" {
			l.refuse(from, why, now)
			continue
		}
		sh := l.shardOf(&t.Key)
		sh.mu.Lock()
		why := l.absorb(sh, t, &a, now)
		sh.mu.Unlock()
		if why != "" {
			l.refuse(from, why, now)
		}
		age := t.Age
		if age == 0 {
			age = a.lag
		}
		l.counters.heard(age, now.clock)
	}
}

// An arrival is how tallies came.
type arrival struct {
	place     int32 // of the peer
	gen       uint32
	uptime    time.Duration // of the peer's ledger when it wrote them
	lag, late time.Duration // how late they are, at the least and, as a rule, at the most
}

// Impossible says what cannot be true whatever is known.
func (t *Tally) Impossible(uptime time.Duration) string {
	switch {
	case t.Total < 0:
		return "a negative total"
	case t.Level < 0 || t.Carried < 0:
		return "a negative level"
	case t.Start < 0 || t.Start > uptime+time.Second: // two records may have to begin in one microsecond
		return "a record from the future"
	case t.Age < 0:
		return "news of the future"
	}
	return ""
}

// Reasons to refuse a tally.
const (
	ReasonFell    = "a total that fell"
	ReasonLeaped  = "a total that grew more than it can"
	reasonDeep    = "a level deeper than any debt"
	reasonNoLimit = "a limit that is none"
)

// absorb heeds one tally, and says why if it does not in all.
func (l *Ledger) absorb(sh *shard, t *Tally, a *arrival, now moment) (why string) {
	age := max(0, a.uptime-t.Start) + t.Age
	r := sh.records[t.Key]
	if r == nil {
		if r, why = l.introduce(sh, t, age, now); r == nil {
			return why
		}
	}
	if !r.plan.Shared {
		return reasonNoLimit
	}
	r.heardAt = r.at(now)
	l.roll(r, now)
	if r.replaced() {
		return l.absorbReplaced(r, t, a, age, now)
	}
	t = r.aligned(t, now)
	s, first := r.peer(a.place, a.gen, l)
	heard := t
	t, why = r.believed(t, first, age)
	known := s.total
	switch {
	case first || t.Start > s.start:
		if t.Reset && age < now.uptime-r.born+l.options.Lag {
			r.reset(now)
		}
		known = l.meet(r, s, t, first, age, a.late, now)
		if first {
			s.waste, s.heard = 0, r.at(now)-min(age, l.watch(r, now)).Microseconds()
		}
		s.leaped = false
	case t.Start < s.start:
		return "" // it was late, and its record has ended
	case t.Total < known && a.uptime < s.said:
		return "" // it was late
	case t.Total < known:
		s.leaped = false // it says what can be true again
		return ReasonFell
	default:
		known += r.counted(t.Total-known, s.heard, now)
	}
	gap := a.uptime - s.said
	if first || t.Start > s.start {
		gap = age
	}
	news := t.Total - known
	most := headgate.MaxDebt*r.plan.Capacity() + r.plan.UnitsIn(2*(r.at(now)-s.heard), headgate.MaxCount)
	leaped := news > most
	if leaped {
		news, why = most, ReasonLeaped
		if s.leaped {
			news = 0 // it was charged when it was first said
		}
	}
	switch {
	case !t.Recent:
		s.recentAt = 0
	case t.Total > s.total || t.Start > s.start:
		s.recentAt = r.at(now) - a.lag.Microseconds()
	}
	// Of a total that cannot be, what was charged is known: totals that can be count again as soon as they are above that.
	s.start, s.total, s.leaped = t.Start, known+news, leaped
	s.heard = r.at(now)
	if l.self != 0 {
		s.heard -= a.lag.Microseconds() // after a stall, packets that waited come at once
	}
	s.past, s.ahead = r.plan.HasWindows() && t.Window < r.window, r.plan.HasWindows() && t.Window > r.window
	l.counters.absorbed.Add(max(0, news))
	if r.side != nil && !s.past {
		r.side.add(news, r.at(now))
	}
	charged := news
	if l.self != 0 && r.plan.IsBucket() {
		charged -= r.missed(s, t, news, gap)
	}
	if leaped || t != heard || !l.agree(sh, r, s, t, charged, a.lag, now) {
		l.heed(r, s, t, charged, age, now)
	}
	if r.plan.HasWindows() && t.Window == r.window && !r.tookOver() {
		r.carryMore(t.Carried, now)
	}
	// What was wasted since this was written may be what it has no news of yet.
	s.waste = max(min(s.waste, r.waste), r.waste-a.lag.Microseconds())
	if !first && a.uptime >= s.said && r.plan.IsBucket() {
		late := a.late
		if t.Age > 0 {
			late = t.Age
		}
		l.level(sh, r, s, t, late, now)
	}
	s.said = max(a.uptime, s.said)
	return why
}

// believed returns what of a tally can be true, and why if that is not all. Of a peer that is heard of for the first time, whose
// level may be taken over, it is no more than the peer could have charged, and consumed since its record began.
func (r *record) believed(t *Tally, first bool, age time.Duration) (_ *Tally, why string) {
	deepest := (1 + headgate.MaxDebt) * r.plan.Capacity()
	if t.Level > deepest+r.mostOwed() {
		why = reasonDeep
	}
	if !first || t.Level <= deepest && t.Total <= deepest {
		return t, why
	}
	can := *t
	can.Level = min(can.Level, deepest)
	if most := deepest + r.plan.UnitsIn(2*age.Microseconds(), headgate.MaxCount); can.Total > most {
		can.Total, why = most, ReasonLeaped
	}
	return &can, why
}

// aligned returns a tally of windows of another period or alignment as one of ours: of the one that is open if theirs is.
func (r *record) aligned(t *Tally, now moment) *Tally {
	if !r.plan.HasWindows() {
		return t
	}
	period := t.Limit.Period.Microseconds()
	if t.Limit == (headgate.Limit{}) || period == r.plan.Period && t.Offset == r.offset {
		return t
	}
	other := *t
	other.Window = r.window
	if t.Window+period <= r.at(now)+r.offset-t.Offset {
		other.Window -= r.plan.Period
	}
	return &other
}

// introduce adds a record for a key that was only heard of. It is nil for one that this node cannot remember, or need not,
// or for which the tally is wrong: then it says why.
func (l *Ledger) introduce(sh *shard, t *Tally, age time.Duration, now moment) (r *record, why string) {
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
		r.waste = min(age, l.watch(r, now)).Microseconds() // before, the bucket was empty
	}
	return r, ""
}

// watch is for how long this node would have heard of a key.
func (l *Ledger) watch(r *record, now moment) time.Duration {
	if l.asks {
		return now.uptime - r.born
	}
	if forgot := time.Duration(l.forgot.Load()); forgot != 0 {
		return now.clock - forgot
	}
	return now.uptime
}

// heed charges news.
func (l *Ledger) heed(r *record, s *seen, t *Tally, news int64, age time.Duration, now moment) {
	if news <= 0 {
		return
	}
	if !r.plan.HasWindows() {
		if l.self == 0 {
			news -= r.used(s, t, news, age)
		}
		l.chargeNews(r, news, r.window, now)
		return
	}
	switch w := r.plan.WindowOf(t.Window); {
	case w > r.window+r.plan.Period:
		l.chargeNews(r, news, r.window, now) // by a date that cannot be right, but just now
	case w >= r.window:
		l.chargeNews(r, news, w, now)
	case r.plan.Kind == algorithm.KindWindows && w >= r.window-r.plan.Period:
		r.here.ChargePrevious(r.plan, r.window, r.at(now), news)
	case r.carries() && w == r.window-r.plan.Period:
		r.heedPast(t.Total-news, t.Total, now)
	}
}

// used returns how much of the news has drained while this node's own bucket was empty, and takes it off its waste. What the
// peer says is still there has not.
func (r *record) used(s *seen, t *Tally, news int64, age time.Duration) int64 {
	waste := min(r.waste-s.waste, age.Microseconds())
	if waste <= 0 {
		return 0
	}
	still := t.Level - r.plan.UnitsIn(t.Age.Microseconds(), t.Level)
	drained := r.plan.UnitsIn(waste, max(0, news-max(0, still)))
	r.waste -= r.plan.TimeFor(drained)
	return drained
}

// chargeNews charges what others consumed in a window, now or when it may be.
func (l *Ledger) chargeNews(r *record, n, window int64, now moment) {
	if n <= 0 {
		return
	}
	if window > r.window {
		if r.owedOf != window {
			r.owed = 0
		}
		r.owed, r.owedOf = min(r.owed+n, r.mostOwed()), window
		return
	}
	d := r.here.Charge(r.plan, r.at(now), min(n, headgate.MaxCount))
	r.changedAt = r.at(now)
	r.emptied(&d, now)
	if rest := n - d.Receipt.Units; rest > 0 {
		r.owed, r.owedOf = min(r.owed+rest, r.mostOwed()), r.window
	}
	if debt := r.level(now) - r.plan.Capacity(); debt > r.over {
		l.counters.over(debt, debt-r.over)
		r.over = debt
	}
}

// mostOwed bounds what is carried beyond the deepest debt: as much as if MaxPeers nodes had all taken twice what they can.
func (r *record) mostOwed() int64 { return 2 * MaxPeers * r.plan.Capacity() }

// peer returns what is known of a peer, and whether that is nothing.
func (r *record) peer(place int32, gen uint32, l *Ledger) (*seen, bool) {
	oldest := 0
	for i := range r.seen {
		s := &r.seen[i]
		if s.peer == place {
			if s.gen == gen {
				return s, false
			}
			*s = seen{peer: place, gen: gen}
			return s, true
		}
		if s.heard < r.seen[oldest].heard {
			oldest = i
		}
	}
	if len(r.seen) < MaxPeers {
		r.seen = append(r.seen, seen{peer: place, gen: gen})
		return &r.seen[len(r.seen)-1], true
	}
	l.counters.crowded.Add(1)
	r.seen[oldest] = seen{peer: place, gen: gen}
	return &r.seen[oldest], true
}

// Refuse reports a tally that cannot be true, for limiters that check tallies themselves.
func (l *Ledger) Refuse(from fleet.Peer, why string) { l.refuse(from, why, l.now()) }

// refuse reports a tally that cannot be true.
func (l *Ledger) refuse(from fleet.Peer, why string, now moment) {
	l.counters.refused.Add(1)
	last := l.counters.reported.Load()
	if last != 0 && int64(now.clock)-last < int64(time.Second) {
		return
	}
	if l.counters.reported.CompareAndSwap(last, max(1, int64(now.clock))) {
		l.options.OnRefused(from, why)
	}
}
