package ledger

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fleet/internal/quota"
)

// A record is what a node knows of one key. Its shard's lock guards it. Times are in µs since 1970, less the key's offset,
// if not said otherwise.
type record struct {
	// What every decision needs comes first, in two lines of the cache.
	plan    *quota.Plan
	emptyAt int64 // when all that was consumed will have leaked, or has
	waste   int64 // for how long the bucket was empty; see used
	total   int64 // consumed since start
	told    int64 // of total
	askedAt int64 // when somebody last wanted to consume
	// changedAt is when here was last changed.
	changedAt int64
	owed      int64 // see owedOf
	class     int8  // of the queue it is in, or none
	gap       int8  // of the list it lingers in, or none
	denied    bool  // latest
	stays     bool  // it was denied since it last drained, and is not evicted
	returned  bool  // there is something in back
	wasReset  bool
	speak     bool // others should hear of the level
	// unlearned is set while it is not known what others consumed; see learning.
	unlearned bool
	void      bool          // the key was reset: totals say more than what counts
	unsure    bool          // a level of others was taken over by guess; see agree
	kept      int32         // see missed
	here      quota.Counter // what counts as consumed, by any node

	key    Key
	alone  *quota.Counter // what this node consumed by itself, if LocalCap bounds that
	kin    *kin           // nil unless the key has records of other kinds
	side   *side          // what nodes on this side of a cut consumed, if they share the limit with the others
	place  int32          // in the shard's list
	spot   int32          // in the list it lingers in
	offset int64          // by how much its clock is behind, if the limit is staggered

	born    time.Duration // uptime
	heardAt int64         // when others were last heard of it

	start  time.Duration // uptime
	window int64
	ahead  int64 // µs: by how much the date was ahead by which that window began; see redate
	sent   int64 // of total, the most that was ever told; others may know it
	toldAt int64 // when any of it first was; 0 if never
	back   int64 // given back of what was told
	backAt int64

	// owed is what others consumed that could not be charged yet: because the debt was at its deepest, or because their
	// windows begin before ours. It is of the window owedOf.
	owedOf int64
	over   int64 // the deepest debt that news has caused since there was none
	// carried is what was carried into a fixed window, and before what was taken in the window before, with what was carried
	// into that.
	carried, before int64
	seen            []seen

	// exchanged is when others were last asked for it, 0 if they have not answered yet; if peers compare sums, when they were last
	// told that it grew.
	exchanged int64

	oldest int64 // when the first record began of all that were heard of, and this one
	joined int64 // when a level of others was last taken over; 0 if never

	region *regional // nil if no other limiter decides
}

// A regional is what another limiter decided, for Region.
type regional struct {
	check headgate.Check
	level int64 // what counted as consumed
	at    int64 // when
}

// at returns a moment by the record's clock.
func (r *record) at(now moment) int64 { return now.at(r.plan, r.offset) }

// roll brings a record to now.
func (l *Ledger) roll(r *record, now moment) {
	at := r.at(now)
	switch {
	case r.plan.HasWindows():
		w := r.plan.WindowOf(at)
		if w < r.window-r.plan.Period && now.ahead < r.ahead {
			l.redate(r, w, now)
		}
		if w > r.window {
			r.endWindow(w)
			r.window, r.ahead = w, now.ahead
			r.over = 0
			r.restart(now)
			if r.owedOf < w {
				r.owed = 0 // a debt goes with its window, but for what is carried
			}
			r.bringForward(now)
		}
		if r.owed > 0 && r.owedOf <= r.window {
			r.settle(now)
		}
	case r.plan.IsBucket():
		if r.owed > 0 && at > r.emptyAt {
			r.drainOwed(at)
		}
		if at > r.emptyAt {
			r.waste += at - r.emptyAt
			r.emptyAt = at
			r.over, r.unsure, r.kept = 0, false, 0
			if r.total > 0 && r.told == r.total && at-r.askedAt >= l.options.Idle.Microseconds() {
				r.restart(now)
			}
		}
		if r.owed > 0 {
			r.settle(now)
		}
	}
}

// drainOwed has what is owed drain since the bucket was empty, as if it had been in there.
func (r *record) drainOwed(at int64) {
	drained := r.plan.UnitsIn(at-r.emptyAt, r.owed)
	r.owed -= drained
	r.emptyAt += r.plan.TimeFor(drained)
	r.here = quota.Counter{}
	d := r.here.Charge(r.plan, r.emptyAt, min(r.owed, headgate.MaxCount))
	r.owed -= d.Receipt.Units
	r.emptyAt += r.plan.TimeFor(d.Receipt.Units)
	r.changedAt = at
}

// settle charges what is owed as far as the debt may go.
func (r *record) settle(now moment) {
	d := r.here.Charge(r.plan, r.at(now), min(r.owed, headgate.MaxCount))
	r.changedAt = r.at(now)
	r.owed -= d.Receipt.Units
	r.emptied(&d, now)
}

// restart begins a record again: others hear of another one, of which nothing was consumed yet.
func (r *record) restart(now moment) {
	r.start = max(now.uptime.Truncate(time.Microsecond), r.start+time.Microsecond)
	r.total, r.told, r.sent, r.toldAt, r.back = 0, 0, 0, 0, 0
	r.wasReset, r.returned = false, false
}

// reset forgets what was consumed.
func (r *record) reset(now moment) {
	r.here = quota.Counter{}
	if r.alone != nil {
		*r.alone = quota.Counter{}
	}
	r.side = nil
	r.owed, r.denied, r.stays, r.void = 0, false, false, true
	r.carried, r.before = 0, 0
	r.forgetMoved()
	r.emptyAt, r.waste = r.at(now), 0
	for i := range r.seen {
		r.seen[i].waste, r.seen[i].level = 0, 0
	}
}

// try takes n units if they are allowed, and says what it decided.
func (l *Ledger) try(r *record, n int64, now moment, d *headgate.Decision) bool {
	at := r.at(now)
	if l.options.LocalCap < 100 && r.alone != nil {
		if own := r.alone.Decide(l.capped(r.plan), at, n); !own.Allowed {
			*d = l.look(r, n, now)
			return false
		}
	}
	if r.side != nil && !r.side.Decide(r.side.plan, at, n).Allowed {
		*d = l.look(r, n, now)
		return false
	}
	if !r.here.Take(r.plan, at, n, d) {
		r.describe(d, n)
		if r.side != nil {
			r.side.tighten(d, n, at)
		}
		return false
	}
	if r.side != nil {
		r.side.add(n, at)
	}
	if l.options.LocalCap < 100 && r.alone != nil {
		var own headgate.Decision
		r.alone.Take(l.capped(r.plan), at, n, &own)
	}
	return true
}

// look tells what a take of n units would answer, or how things stand for 0.
func (l *Ledger) look(r *record, n int64, now moment) headgate.Decision {
	d := r.here.Decide(r.plan, r.at(now), n)
	r.describe(&d, n)
	if r.side != nil {
		r.side.tighten(&d, n, r.at(now))
	}
	if r.alone != nil {
		own := r.alone.Decide(l.capped(r.plan), r.at(now), n)
		tighten(&d, &own)
	}
	return d
}

// describe adds what is owed to a decision about n units.
func (r *record) describe(d *headgate.Decision, n int64) {
	if r.plan.HasWindows() {
		if !d.Allowed && r.carries() {
			r.describeCarried(d, n)
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

// charge takes n units whatever the limit says.
func (l *Ledger) charge(r *record, n int64, now moment) headgate.Decision {
	d := r.here.Charge(r.plan, r.at(now), n)
	r.changedAt = r.at(now)
	if r.side != nil {
		r.side.add(d.Receipt.Units, r.at(now))
	}
	if r.alone != nil {
		r.alone.Charge(l.capped(r.plan), r.at(now), n)
	}
	return d
}

// consumed counts what this node consumed.
func (l *Ledger) consumed(sh *shard, r *record, n int64, now moment) {
	if !r.plan.Shared {
		return
	}
	if r.returned {
		n -= r.makeGood(n, r.at(now))
	}
	r.total += n
	l.changed(sh, r)
}

// makeGood returns how many of n units that are consumed stand for what was given back of what others were told. They
// have charged it, and it leaks from their counters too.
func (r *record) makeGood(n, at int64) int64 {
	if r.plan.IsBucket() {
		r.back -= r.plan.UnitsIn(at-r.backAt, r.back)
	}
	r.backAt = at
	n = min(n, r.back)
	r.back -= n
	r.returned = r.back > 0
	return n
}

// give returns n units that this node took.
func (l *Ledger) give(r *record, own *quota.Plan, n int64, receipt headgate.Receipt, now moment) {
	at := r.at(now)
	before := r.here.Decide(r.plan, at, 0).Remaining
	r.here.Give(r.plan, own, at, n, receipt)
	r.changedAt = at
	if r.side != nil {
		r.side.Give(r.side.plan, own, at, n, receipt)
	}
	if r.alone != nil {
		r.alone.Give(l.capped(r.plan), own, at, n, receipt)
	}
	d := r.here.Decide(r.plan, at, 0)
	r.emptied(&d, now)
	r.denied = false
	if !r.plan.Shared {
		return
	}
	given := d.Remaining - before
	untold := min(given, r.total-r.sent)
	r.total -= untold
	r.told = min(r.told, r.total)
	if given -= untold; given > 0 {
		r.makeGood(0, at)
		r.back, r.returned = r.back+given, true
	}
}

// emptied notes what a decision says of when all will have leaked.
func (r *record) emptied(d *headgate.Decision, now moment) {
	if r.plan.IsBucket() {
		r.emptyAt = r.at(now) + d.ResetAfter.Microseconds()
	}
}

// level returns what counts as consumed.
func (r *record) level(now moment) int64 {
	d := r.here.Decide(r.plan, r.at(now), 0)
	level := r.plan.Capacity() - d.Remaining
	if !r.plan.HasWindows() || r.owedOf <= r.window {
		level += r.owed
	}
	return level
}

// idle reports whether a record is as good as none.
func (r *record) idle(now moment) bool {
	return r.owed == 0 && r.total == r.told && r.drained(now)
}

// drained reports whether nothing of what was consumed counts any more.
func (r *record) drained(now moment) bool {
	if r.plan.IsBucket() {
		return r.emptyAt <= r.at(now)
	}
	return r.here.Decide(r.plan, r.at(now), 0).ResetAfter == 0
}

// tell returns what to tell of a record, and notes that others may know it.
func (l *Ledger) tell(r *record, now moment) Tally {
	if r.toldAt == 0 && r.total > 0 {
		r.toldAt = r.at(now)
	}
	if l.self != 0 && r.total != r.sent {
		r.exchanged = r.at(now)
	}
	t := r.tally(now)
	t.MayKnow, r.sent = r.sent, r.total
	l.describeSum(&t, r, now)
	return t
}

// tally returns what there is to tell of a record.
func (r *record) tally(now moment) Tally {
	t := Tally{
		Key: r.key, Limit: r.plan.Limit, Start: r.start, Total: r.total, Level: r.level(now),
		Offset: r.offset, Reset: r.wasReset, Acknowledged: r.told, SendLevel: r.speak,
		Unlearned: r.unlearned, AllNotes: r.exchanged == 0, Added: r.born,
	}
	if r.plan.HasWindows() {
		t.Window, t.Carried = r.window, r.carried+r.movedHere()
	}
	return t
}
