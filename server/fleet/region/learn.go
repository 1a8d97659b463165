package region

import (
	"context"

	"github.com/headgate/headgate/server/fleet/internal/tally"
)

// noteLearned ends the lookups of learned keys. A key is learned when its consumption in other regions is known. For
// keys that this node sends to other regions, Limiter.round has already charged that consumption. For keys that another
// node sends, that node has reported to the RegionStore that they are learned. noteLearned also reports the keys that
// this node has learned to the RegionStore, because other nodes may wait for them. responses[i] is the response for
// l.batch.Tallies[i].
func (l *Limiter) noteLearned(ctx context.Context, responses []response) {
	if len(responses) == 0 {
		return
	}
	var exchangedGroups, failedGroups uint64 // one bit for each key group: see tally.GroupOf
	var newlyLearned []tally.Tally           // of the keys that this node sends
	waiting := false
	for i := range responses {
		t, r := &l.batch.Tallies[i], &responses[i]
		switch {
		case r.failed:
			failedGroups |= 1 << tally.GroupOf(&t.Key)
			l.ledger.LookupDone(t, false)
		case r.IsSender: // this node sends the key
			exchangedGroups |= 1 << tally.GroupOf(&t.Key)
			if t.PeersUnknown {
				newlyLearned = append(newlyLearned, *t)
			}
			l.ledger.LookupDone(t, true)
		case r.Learned:
			exchangedGroups |= 1 << tally.GroupOf(&t.Key)
			l.ledger.LookupDone(t, true)
		case t.PeersUnknown:
			if l.ledger.LookupAgain(t) {
				waiting = true
			}
		}
	}
	l.ledger.LookupGroupsDone(exchangedGroups|failedGroups, failedGroups)
	if len(newlyLearned) > 0 {
		if _, _, err := l.sendReport(ctx, newlyLearned, true); err != nil {
			l.link.Counters.Failures.Add(1) // the next report includes it
		}
	}
	if waiting {
		l.rounds.Hurry()
	}
}
