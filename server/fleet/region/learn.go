package region

import (
	"context"

	"github.com/headgate/headgate/server/fleet/internal/ledger"
)

// noteLearned ends the lookups of keys whose consumption in other regions is now known. For keys that this node sends,
// round has charged it before. For keys that another node sends, that node has reported it. noteLearned also reports
// the keys that this node has learned to the RegionStore, for nodes that wait for them. reports[i] is the report of
// g.batch.Tallies[i].
func (g *Limiter) noteLearned(ctx context.Context, reports []report) {
	if len(reports) == 0 {
		return
	}
	l := g.ledger
	var exchangedGroups, failedGroups uint64 // bit sets
	var newlyLearned []ledger.Tally          // of the keys that this node sends
	waiting := false
	for i := range reports {
		t, r := &g.batch.Tallies[i], &reports[i]
		switch {
		case r.failed:
			failedGroups |= 1 << ledger.GroupOf(&t.Key)
			l.LookupDone(t, false)
		case r.IsSender: // this node sends the key
			exchangedGroups |= 1 << ledger.GroupOf(&t.Key)
			if t.Unlearned {
				newlyLearned = append(newlyLearned, *t)
			}
			l.LookupDone(t, true)
		case r.Learned:
			exchangedGroups |= 1 << ledger.GroupOf(&t.Key)
			l.LookupDone(t, true)
		case t.Unlearned:
			waiting = l.LookupAgain(t) || waiting
		}
	}
	l.LookupGroupsDone(exchangedGroups|failedGroups, failedGroups)
	if len(newlyLearned) > 0 {
		if _, _, err := g.sendReport(ctx, newlyLearned, allLearned); err != nil {
			g.link.Counters.Failures.Add(1) // the next report includes it
		}
	}
	if waiting {
		g.rounds.Hurry()
	}
}
