package ledger

import (
	"time"

	"github.com/headgate/headgate"
)

// Nodes that have heard of the same are at the same level, but for what is under way. One that is lower than another for
// long has missed something: it has forgotten a key, or was told of one before it knew how long it had been there. That
// would not mend by itself: whoever is lower lets more pass, the others hear of it, and are held lower than they were. So a
// node that finds itself below another in all that it hears for a while catches up; and one that finds another below speaks,
// as it may be that it has been denying for so long that it has nothing else to tell.
//
// It never does so because of what is under way. A tally brings what its sender consumed and its level at once; and what
// the sender knew of third nodes reaches us as soon as it did him, now and then at least. Nor because the tally was late:
// what has leaked since it was written is taken off, and rather too much than too little.

// leastLevels is how often a peer must have been heard of in the time in which news may be late.
const leastLevels = 4

// level raises a record to the level of a peer that has been above it for long. One that has been below is told of ours.
func (l *Ledger) level(sh *shard, r *record, s *seen, t *Tally, late time.Duration, now moment) {
	theirs := min(t.Level-r.plan.UnitsIn(late.Microseconds()+1, t.Level), (1+headgate.MaxDebt)*r.plan.Capacity())
	above := theirs - r.level(now) - 1 // parts of units may be rounded either way
	at := r.at(now)
	if s.times == 0 {
		s.least, s.most, s.since = above, above, at
	}
	s.least, s.most = min(s.least, above), max(s.most, above)
	s.times++
	if at-s.since < l.options.Lag.Microseconds() || s.times < leastLevels {
		return
	}
	s.times = 0
	if s.least > 0 {
		l.counters.levelled.Add(s.least)
		l.chargeNews(r, s.least, r.window, now)
		r.joined = at
		for i := range r.seen {
			r.seen[i].times = 0 // what was seen of the others was seen from below
		}
	}
	if s.most < -2 {
		r.speak = true
		l.changed(sh, r)
	}
}
